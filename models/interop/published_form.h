// A model's interface for reading and writing the folders that its publishers' framework has (Hugging Face's
// config.json and model.safetensors, or a checkpoint of Mesh TensorFlow and its operative_config.gin): one table of
// tensors, and the two configurations as functions of each other.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/json.h"

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
// names: the first is the usual one.
struct PublishedTensor {
  const char* ours;
  const char* theirs;
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
  std::span<const PublishedTensor> tensors;
  // Tensors that no model computes with, as patterns: checked where they say something, kept, written back.
  std::span<const char* const> without_effect;
  // The prefix of all names of the model itself: "bert."; files of the model without a head leave it out. Empty
  // where there is none.
  const char* prefix;
  std::span<const PublishedAlias> aliases;

  // Our configuration. Error(kData) names the key for what cannot be computed or does not fit the tensors.
  std::unique_ptr<ModelConfig> (*read)(const PublishedConfig& config);
  // Theirs: the members that it decides, and `architectures`. Fields without a published form are left out.
  Json (*write)(const ModelConfig& model);
  // The fields of a training configuration that say what the model is. Those of its attention are there, as the first
  // layer that has projections would have them.
  void (*describe)(const ModelConfig& model, TrainingConfig& config);
  // n of {g} and {j}; null: 1.
  int64_t (*inner_layers)(const ModelConfig& model);
  // Whether a row is the model's, where names depend on its configuration; null: all rows are.
  bool (*has_row)(const PublishedTensor& row, const ModelConfig& model) = nullptr;
  const char* config_name = "config.json";  // the file of its configuration, for errors
};

// Hugging Face's.
const std::vector<const PublishedForm*>& PublishedForms();
// By the model's name in the registry; null where nobody publishes models of its kind in that format.
const PublishedForm* FormOf(std::string_view model, PublishedFormat format = PublishedFormat::kHuggingFace);

}  // namespace crosstalk
