// The models that a run can train and a command can load, one line each in registry.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/model.h"
#include "crosstalk/models/model_config.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/runtime/field.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"

#pragma GCC visibility push(default)
namespace crosstalk {

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
  double norm_epsilon;
  // Fills in the defaults that are the model's own, or follow from other members and the tokens of an input; may be
  // null.
  void (*resolve)(ModelConfig& config, int64_t input_length);
  // Makes the layers of attention that the options say. Error(kUsage) that names the field at fault.
  void (*make_layers)(ModelConfig& config);
  // ModelConfig::Validate.
  void (*validate)(const ModelConfig& config);
  // The rows of its file, beside `model`.
  const FieldTable<ModelConfig>& (*fields)();
  std::unique_ptr<Model> (*make)(const ModelConfig& config, const Initializer& init);
};

const std::vector<ModelType>& ModelTypes();
std::vector<std::string> ModelNames();
// Error(kUsage) of the field "model" that lists the names, for any other.
const ModelType& FindModel(std::string_view name);

// The configuration with nothing left open that is a default. An input has so many tokens.
void Resolve(ModelConfig& config, int64_t input_length);

// What ModelConfig::ToJson gave, validated. Error(kData) with `source` and the key for what is missing, unknown or
// cannot be.
ModelConfig ReadModelConfig(const Json& json, const std::string& source);

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
#pragma GCC visibility pop
