// A model's interface for reading and writing the folders that its publishers' framework has (Hugging Face's
// config.json and model.safetensors, or a checkpoint of Mesh TensorFlow and its operative_config.gin): one table of
// tensors, and the two configurations as functions of each other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/models/bert/bert.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/shape.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk {

class PublishedConfig;
struct ModelConfig;
struct TrainingConfig;

// The formats of published models.
enum class PublishedFormat {
  kHuggingFace,  // config.json and model.safetensors
  kMesh,         // a checkpoint of Mesh TensorFlow, and operative_config.gin
};
template <>
struct EnumNames<PublishedFormat> {
  static constexpr EnumName<PublishedFormat> kTable[] = {{PublishedFormat::kHuggingFace, "huggingface"},
                                                         {PublishedFormat::kMesh, "mesh"}};
};

// How a parameter stands in a published file. "In" and "out" are one dimension or several.
enum class Layout {
  kSame,
  kFlat,        // ours[h, d] as [h·d]
  kTransposed,  // ours[in, out] as [out, in], which is how PyTorch has a dense layer
  kMatrix,      // ours[in, out] as [in, out], each one dimension: a dense layer's weight whose heads are not apart
  kRows,        // ours[rows, d] as its first rows, one for each id; the rest, up to a multiple of 128, are zeros
  kColumns,     // the same as [d, ids]
};

// A row of a model's table. {i} is a number, the same in both names; {z} is i in three digits or more, 007; {g} and {j}
// are i / n and i % n where n inner layers stand in a group. A parameter with several rows is one tensor under several
// names: the first is the usual one. NAME[0], NAME[1], … are equal parts, in its last dimension, of one tensor NAME.
struct PublishedTensor {
  const char* ours;
  const char* theirs;
  Layout layout;
};

// Rows that a table has several times under other names: each name continues the part's.
struct PublishedPart {
  const char* ours;
  const char* theirs;
  std::span<const PublishedTensor> tensors;
};

// A row with its whole names.
struct PublishedRow {
  std::string ours;
  std::string theirs;
  Layout layout;
};

// A row that other releases wrote under another name.
struct PublishedAlias {
  const char* end;  // of a name
  const char* usual_end;
};

// The functions get configurations of its model alone.
struct PublishedForm {
  const char* model;       // its name in the registry
  const char* model_type;  // of config.json
  std::span<const PublishedPart> parts;
  // Tensors that no model computes with, as patterns: checked where they say something, kept, written back.
  std::span<const char* const> without_effect;
  // The prefix of all names of the model itself: "bert."; files of the model without a head leave it out. Empty
  // if there is none.
  const char* prefix;
  std::span<const PublishedAlias> aliases;

  // Our configuration. Error(kData) names the key for what cannot be computed or does not fit the tensors.
  ModelConfig (*read)(const PublishedConfig& config);
  // Theirs: the members that it decides, and `architectures`. Fields without a published form are left out.
  Json (*write)(const ModelConfig& model);
  // Whether a row is the model's, where names depend on its configuration; null: all rows are.
  bool (*has_row)(const PublishedRow& row, const ModelConfig& model) = nullptr;
  const char* config_name = "config.json";  // the file of its configuration, for errors
};

// Hugging Face's.
const std::vector<const PublishedForm*>& PublishedForms();
// Those of a model in the registry, in that format; none where nobody publishes models of its kind in it.
std::vector<const PublishedForm*> FormsOf(std::string_view model,
                                          PublishedFormat format = PublishedFormat::kHuggingFace);

// Parameters by their published names and back, from a model's table, and their values in the published layout.

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
  // The names of a model with that configuration; null: not known yet.
  PublishedNames(const PublishedForm& form, const ModelConfig* model);

  const std::vector<PublishedRow>& rows() const { return rows_; }
  // The names that a parameter may have, the usual one first. One that the table has no row for is an extension: its
  // path after kExtensionPrefix.
  std::vector<PublishedName> NamesOf(std::string_view path) const;
  PublishedName UsualName(std::string_view path) const { return NamesOf(path).front(); }
  // The parameters that a name may mean, in the table's order, and how.
  std::vector<PublishedName> PathsOf(std::string_view name) const;
  // The parts of a tensor, by its usual name; 0: it is one parameter.
  int PartsOf(std::string_view name) const;
  // True for a tensor that no model computes with.
  bool IsWithoutEffect(std::string_view name) const;
  // How the names of a file begin. Error(kData) with `source` where only some of them have what a wrapper adds.
  NamePrefix PrefixOf(const std::vector<std::string>& names, const std::string& source) const;
  // The name as the table has it, for one of such a file, or of an older release.
  std::string Usual(std::string_view name, const NamePrefix& prefix) const;

 private:
  const PublishedForm* form_;
  std::vector<PublishedRow> rows_;
  int64_t inner_layers_;
};

inline bool IsExtension(std::string_view name) { return name.starts_with(kExtensionPrefix); }

// `{i}` of a pattern where the name is one of it, -1 where the pattern has no number; nothing if it is not.
std::optional<int64_t> MatchPattern(std::string_view pattern, std::string_view name, int64_t inner_layers);
std::string ExpandPattern(std::string_view pattern, int64_t i, int64_t inner_layers);

// The name of a part, and the whole's name and the part's number of one; none where it names a whole.
inline std::string PartName(std::string_view name, int part) { return StrCat(name, "[", part, "]"); }
std::optional<std::pair<std::string, int64_t>> WholeAndPart(const std::string& name);
// By their usual names, in the published layout: parts together as the tensor that they are parts of, and back. What is
// whole stays, and so do parts of different shapes.
std::vector<NamedTensor> JoinParts(const std::vector<NamedTensor>& tensors);
Tensor PartOf(const Tensor& whole, int part, int parts);

// Theirs as ours; nothing where the shapes do not fit.
std::optional<Tensor> FromPublished(const Tensor& theirs, Layout layout, const Shape& ours);
// The shape of a parameter as theirs; `ids` are those of kRows and kColumns.
Shape PublishedShape(Layout layout, const NamedParameter& parameter, int64_t ids);
// Its value or its gradient as theirs, contiguous.
Tensor ToPublished(const Tensor& ours, Layout layout, const NamedParameter& parameter, int64_t ids);

// As their publishers' framework has them.
extern const PublishedForm kPublishedBert, kPublishedAlbert, kPublishedRoberta, kPublishedXlmRoberta,
    kPublishedCamembert, kPublishedT5, kPublishedMt5, kPublishedUmt5;
// Models lm: GPT-2, Llama, Mistral, Qwen2, Qwen3.
extern const std::span<const PublishedForm> kPublishedDecoders;

// T5 as its authors' framework, Mesh TensorFlow, has it: T5 1.0 and 1.1, and talking heads with every head projection.
// ReadGin gives its configuration, with feed_forward, dynamic and vocabulary of MeshOptions beside it; most of
// it follows from the tensors' shapes. Not in PublishedForms().
extern const PublishedForm kPublishedMeshT5;

}  // namespace crosstalk
