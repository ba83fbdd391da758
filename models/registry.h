// The models that a run can train and a command can load, one line each in registry.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/model.h"
#include "crosstalk/models/model_config.h"
#include "crosstalk/runtime/field.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

class StoredParameters;

struct ModelType {
  const char* name;  // "t5": the configuration field `model`, and the member `model` of the JSON
  // Its objectives; the first unless the configuration names another.
  std::vector<const char*> objectives;
  // The options that this model reads and not every model does: one that a line lists is read by the models alone that
  // list it. Giving it to another is an error.
  std::vector<MemberId> own;
  // Modules that are a head of some objective: a run that begins with another's weights takes those that both have, and
  // gives its own others initial values.
  std::vector<const char*> heads;
  Recipe recipe;
  // Fills in the defaults of options that are the model's own, or follow from others; may be null.
  void (*resolve)(ModelOptions& options, int64_t input_length);
  // The model's configuration, validated. Error(kUsage) that names the field at fault.
  std::unique_ptr<ModelConfig> (*configure)(const ModelOptions& options, const ModelPurpose& purpose);
  // The same from a file. Error(kData) with `source` for a configuration that is not one of this model.
  std::unique_ptr<ModelConfig> (*read)(const Json& json, const std::string& source);
};

const std::vector<ModelType>& ModelTypes();
std::vector<std::string> ModelNames();
// Error(kUsage) of the field "model" that lists the names, for any other.
const ModelType& FindModel(std::string_view name);

// Of the model that the JSON's member `model` names. Error(kData) with `source`.
std::unique_ptr<ModelConfig> ReadModelConfig(const Json& json, const std::string& source);

// With initial values that are a function of (seed, parameter name).
std::unique_ptr<Model> MakeModel(const ModelConfig& config, uint64_t seed);
// With the parameters of a file, which must be just those of the configuration: Error(kData) names both files
// and the tensor. Whatever the configuration says, nothing is allocated that is not in the file. Of another dtype than
// float32 they are converted first.
std::unique_ptr<Model> LoadModel(const ModelConfig& config, const std::string& source, TensorFile parameters,
                                 DType dtype = DType::kFloat32);
// The same from stored parameters, of which some may have initial values, those of the seed.
std::unique_ptr<Model> LoadModel(const ModelConfig& config, const std::string& source,
                                 const std::shared_ptr<StoredParameters>& stored, DType dtype, uint64_t seed);

}  // namespace crosstalk
