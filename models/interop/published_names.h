// Parameters by their published names and back, from a model's table, and their values in the published layout.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/interop/published_form.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/shape.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk {

// The prefix of the path of a parameter without a published name.
inline constexpr std::string_view kExtensionPrefix = "crosstalk.";

struct PublishedName {
  std::string name;
  Layout layout;
};

// What the names of a file begin with beside, or without, what the table has.
struct NamePrefix {
  std::string wrappers = {};  // "module.", of PyTorch's parallel modules, "_orig_mod.", of compiled ones, or several
  bool lacks_own = false;     // the table's prefix is not there
};

class PublishedNames {
 public:
  // Of a model with that configuration; null: not known yet.
  PublishedNames(const PublishedForm& form, const ModelConfig* model);

  // The names that a parameter may have, the usual one first. One that the table has no row for is an extension: its
  // path after kExtensionPrefix.
  std::vector<PublishedName> NamesOf(std::string_view path) const;
  PublishedName UsualName(std::string_view path) const { return NamesOf(path).front(); }
  // The parameters that a name may mean, in the table's order, and how.
  std::vector<PublishedName> PathsOf(std::string_view name) const;
  // Of those that no model computes with.
  bool IsWithoutEffect(std::string_view name) const;
  // How the names of a file begin. Error(kData) with `source` where only some of them have what a wrapper adds.
  NamePrefix PrefixOf(const std::vector<std::string>& names, const std::string& source) const;
  // The name as the table has it, for one of such a file, or of an older release.
  std::string Usual(std::string_view name, const NamePrefix& prefix) const;

 private:
  const PublishedForm* form_;
  std::vector<PublishedTensor> rows_;
  int64_t inner_layers_;
};

inline bool IsExtension(std::string_view name) { return name.starts_with(kExtensionPrefix); }

// `{i}` of a pattern where the name is one of it, -1 where the pattern has no number; nothing where it is not.
std::optional<int64_t> MatchPattern(std::string_view pattern, std::string_view name, int64_t inner_layers);
std::string ExpandPattern(std::string_view pattern, int64_t i, int64_t inner_layers);

// Theirs as ours; nothing where the shapes do not fit.
std::optional<Tensor> FromPublished(const Tensor& theirs, Layout layout, const Shape& ours);
// A value or a gradient of a parameter as theirs, contiguous; `ids` are those of kRows and kColumns.
Tensor ToPublished(const Tensor& ours, Layout layout, const NamedParameter& parameter, int64_t ids);

}  // namespace crosstalk
