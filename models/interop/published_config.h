// config.json of a published model, read by keys whose defaults are the library's, and held against the tensors.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/shape.h"

namespace crosstalk {

struct ModelConfig;

// The shapes of a file's tensors, by their usual names.
using TensorShapes = std::map<std::string, Shape, std::less<>>;

// Whether two tensors of a file, by their usual names, have other bytes.
using TensorsDiffer = std::function<bool(const std::string& one, const std::string& other)>;

class PublishedConfig {
 public:
  static const Json& NoJson();  // null
  // Keeps pointers to its arguments. `generation` is the file generation_config.json beside it, or null. Without
  // `differ`, two tensors that are there are two.
  PublishedConfig(const Json& json, std::string source, const TensorShapes& tensors, const Json& generation = NoJson(),
                  TensorsDiffer differ = nullptr)
      : json_(&json),
        generation_(&generation),
        source_(std::move(source)),
        tensors_(&tensors),
        differ_(std::move(differ)) {}

  // A key that is missing or null has the fallback. Error(kData) of the key for another type or a value out of range.
  bool Has(std::string_view key) const;
  bool IsNull(std::string_view key) const;
  int64_t Int(std::string_view key, int64_t fallback, int64_t low, int64_t high) const;
  // A size: at least 1, at most 2^24.
  int64_t Size(std::string_view key, int64_t fallback) const { return Int(key, fallback, 1, 1 << 24); }
  double Double(std::string_view key, double fallback, double low, double high) const;
  bool Bool(std::string_view key, bool fallback) const;
  std::string String(std::string_view key, const std::string& fallback) const;
  const Json* Find(std::string_view key) const;
  // Whether the key is there, be it null.
  bool Says(std::string_view key) const { return json_->Find(key) != nullptr; }
  // An id of the vocabulary.
  int32_t Token(std::string_view key, int64_t fallback, int64_t vocabulary) const;
  // eos_token_id, one id or a list of them, as generation_config.json has it, else config.json, as the ids that end the
  // model's texts: tokens.end is the configuration's own, where it is among them.
  void ReadEnds(int64_t fallback, ModelConfig& model) const;
  // Whether `head`, a table of the output, is there with other bytes than `embedding` has, whatever tie_word_embeddings
  // says: that key says what was tied in training, and is true in files of both kinds.
  bool IsUntied(const std::string& head, const std::string& embedding) const;
  // `architectures`, or nothing.
  std::vector<std::string> Architectures() const;

  // Refuses a key that is there with another value than that: a choice which cannot be computed here.
  void MustBe(std::string_view key, const Json& value) const;

  const std::string& source() const { return source_; }
  bool HasTensor(std::string_view name) const { return FindShape(name) != nullptr; }
  // The shape of a tensor; null if none has that name.
  const Shape* FindShape(std::string_view name) const;
  // True where some tensor's name begins so.
  bool HasTensorsOf(std::string_view prefix) const;
  // The first of several names of one tensor that is there; the first of all if none is.
  std::string FirstTensor(std::initializer_list<std::string> names) const;
  // Error(kData) that names the keys unless the tensor is there and has this shape.
  void CheckShape(std::string_view keys, std::string_view tensor, const Shape& shape) const;
  // One dimension of a tensor that is there.
  int64_t TensorSize(std::string_view tensor, int dim) const;

  template <typename... Parts>
  [[noreturn]] void FailAt(std::string_view key, const Parts&... parts) const {
    Fail(ErrorKind::kData, source_, ": ", key, ": ", parts...);
  }

 private:
  const Json* json_;
  const Json* generation_;
  std::string source_;
  const TensorShapes* tensors_;
  TensorsDiffer differ_;
};

// The ids that end a model's texts as eos_token_id has them: a number, a list of several, or null.
Json EndsOf(const ModelConfig& model);

// A layer of attention in the words of the options that make it.

// MakeAttentionConfig(OptionsOf(layer), layer.d_X) has the layer's form, sizes and head projections. A size that
// follows from the width is left out.
AttentionOptions OptionsOf(const AttentionConfig& layer);

}  // namespace crosstalk
