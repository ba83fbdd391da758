// The model of a published folder, and what must be kept of the folder to write it again as it was.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/interop/hugging_face.h"
#include "crosstalk/models/interop/names.h"
#include "crosstalk/models/model.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/record.h"
#include "crosstalk/runtime/safetensors.h"

namespace crosstalk {

// The member of config.json that holds our configuration, where the published one cannot say what the model is.
inline constexpr char kExtensionKey[] = "crosstalk";

// The folder's files as they were, except the weights' values.
struct PublishedRecord {
  struct StoredTensor {
    std::string name;
    std::string dtype;  // "F32", "F16", "BF16", "I64", "I32"

    static FieldTable<StoredTensor> Fields() {
      return {{"name", &StoredTensor::name, {.may_have_nul = true}}, {"dtype", &StoredTensor::dtype}};
    }
    static constexpr UnknownKeys kUnknownKeys = UnknownKeys::kPassedOver;
  };
  PublishedFormat format = PublishedFormat::kHuggingFace;
  std::string config_text;
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
  std::vector<NamedTensor> without_effect;  // values of those that are no parameter
};

struct PublishedModelOptions {
  DType dtype = DType::kFloat32;  // of the parameters
  // The kinds that attention layers continue as (nn/attention/identity.h), of each stack in turn and again from the
  // first: the same function, unless the head projections that are added begin at random.
  std::vector<AttentionKind> attention = {};
  MixingInit mixing_init = MixingInit::kIdentity;
  std::optional<AttentionImplementation> implementation = {};
};

struct PublishedModel {
  const PublishedForm* form = nullptr;
  std::unique_ptr<Model> model;
  PublishedRecord record;
  std::vector<std::string> remarks;  // sentences for the user
};

// Error(kData) that names the file and the key or tensor for whatever does not fit together, or cannot be computed;
// Error(kUsage) of the field "attention" for a kind that the folder's layers cannot continue as.
PublishedModel LoadPublishedModel(const PublishedFolder& folder, const PublishedModelOptions& options);

}  // namespace crosstalk
