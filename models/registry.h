// The models that a run can train and a command can load, one line each in registry.cc. A model's configuration is JSON
// on its way from a training configuration, or from a file, to the model, so that both roads are one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/model.h"
#include "crosstalk/models/text/special_tokens.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

class ResolvedConfig;
class StoredParameters;
struct InspectedText;
struct PublishedForm;
struct TrainingConfig;

// What a model is told of its tokenizer.
struct Vocabulary {
  int64_t size = 0;  // ids, sentinels counted
  SpecialTokens tokens;
};

struct ModelType {
  const char* name;  // "t5": the configuration field `model`, and the member `model` of the JSON
  // What it can be trained on; the first unless the configuration names another.
  std::vector<const char*> objectives;
  // The fields of a training configuration that this model reads and not every model does. Giving one to a model that
  // does not list it is an error.
  std::vector<const char*> own_fields;
  // Modules that are a head of some objective: a run that begins with another's weights takes those that both have, and
  // gives its own others initial values.
  std::vector<const char*> heads;
  // Fills in the defaults of those that follow from other fields; may be null.
  void (*resolve)(TrainingConfig& config);
  // The model's configuration. Error(kUsage) that names the field at fault.
  Json (*configure)(const TrainingConfig& config, const Vocabulary& vocabulary);
  // The model, with the initializer's values. Error(kData) with `source` for a configuration that is not one of this
  // model.
  std::unique_ptr<Model> (*make)(const Json& config, const std::string& source, const Initializer& init);
  // A text as its inputs (models/text_inputs.h); null where it reads none.
  Batch (*read_text)(const Model& model, const std::shared_ptr<const Tokenizer>& tokenizer,
                     const InspectedText& text) = nullptr;
  // How its publishers' framework has it; null where nobody does.
  const PublishedForm* published = nullptr;
};

const std::vector<ModelType>& ModelTypes();
std::vector<std::string> ModelNames();
// The models that list a field as their own; empty: every model reads it.
std::vector<std::string> ModelsThatOwn(std::string_view field);
// Error(kUsage) of the field "model" that lists the names, for any other.
const ModelType& FindModel(std::string_view name);

// By the JSON's member `model`, with initial values that are a function of (seed, parameter name).
std::unique_ptr<Model> MakeModel(const Json& config, const std::string& source, uint64_t seed);
// The same with the parameters of a file, which must be just those of the configuration: Error(kData) names both files
// and the tensor. Whatever the configuration says, nothing is allocated that is not in the file. Of another dtype than
// float32 they are converted first.
std::unique_ptr<Model> LoadModel(const Json& config, const std::string& source, TensorFile parameters,
                                 DType dtype = DType::kFloat32);

// The same from stored parameters, of which some may have initial values, those of the seed.
std::unique_ptr<Model> LoadModel(const Json& config, const std::string& source,
                                 const std::shared_ptr<StoredParameters>& stored, DType dtype, uint64_t seed);

// What a model would be, without its parameters.
struct ModelDescription {
  Json config;
  std::string text;  // Model::Describe()
  std::vector<AttentionPlace> places;
  std::string implementation;  // of attention
};
ModelDescription DescribeModel(const ResolvedConfig& config, const Vocabulary& vocabulary);

}  // namespace crosstalk
