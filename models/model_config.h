// ModelConfig: what a model is built from, except its parameters' values. Every model has one of its own, with a table
// of fields for its file form, that begins with this one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/model_options.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/nn/attention/bias.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/nn/transformer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/field.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

class Model;

struct ModelConfig {
  int64_t vocabulary = 0;  // ids are 0 … vocabulary - 1
  int64_t d_model = 0;
  int64_t d_ff = 0;
  FeedForwardKind feed_forward = FeedForwardKind::kRelu;
  ClassifierKind classifier = ClassifierKind::kTied;
  double dropout_rate = 0.0;  // of embeddings, layers, final outputs and attention; 0 in pretraining, 0.1 in finetuning
  int64_t relative_buckets = 32;
  int64_t relative_attention_max_distance = 128;  // where the last bucket's range would end
  double norm_epsilon = 1e-6;
  SpecialTokens tokens;
  std::vector<int32_t> more_ends;  // ids that end a text beside tokens.end, as a published model may have them

  virtual ~ModelConfig() = default;

  virtual const char* model() const = 0;  // its name in the registry
  // As files have it: {"model": "t5", …}.
  virtual Json ToJson() const = 0;
  // Throws a usage error that names the field at fault.
  virtual void Validate() const = 0;
  virtual std::unique_ptr<Model> Make(const Initializer& init) const = 0;
  virtual std::unique_ptr<ModelConfig> Clone() const = 0;
  // The configurations of its attention layers.
  virtual std::vector<AttentionConfig*> AttentionLayers() = 0;
  void SetImplementation(AttentionImplementation implementation) {
    for (AttentionConfig* layer : AttentionLayers()) layer->implementation = implementation;
  }
  // Where this was made of the options that made `before`, it is for a model that is `origin`: what no option says
  // alone (ids above the tokenizer's, the norms' epsilon, heads for a task) stays as that has it. All are of one model.
  virtual void KeepFrom(const ModelConfig& origin, const ModelConfig& before) = 0;

  bool EndsText(int32_t id) const {
    return id == tokens.end || std::find(more_ends.begin(), more_ends.end(), id) != more_ends.end();
  }
  RelativeBiasConfig relative_bias() const {
    return {.buckets = relative_buckets, .max_distance = relative_attention_max_distance};
  }
  // The part that options and a tokenizer determine.
  void SetFrom(const ModelOptions& options, const Vocabulary& tokenizer);
  // The same as options, without the vocabulary.
  void Describe(ModelOptions& options) const;
  // A pre-norm stack with RMS norms, as T5's are; BERT's differs in more.
  TransformerConfig PreNormStack(int64_t layers, const AttentionConfig& self_attention) const;

 protected:
  ModelConfig() = default;
  ModelConfig(const ModelConfig&) = default;
  ModelConfig& operator=(const ModelConfig&) = default;
  // Validate()'s part of these fields. The tokens that are `needed` must be there.
  void Check(std::initializer_list<int32_t SpecialTokens::*> needed) const;
};

// Those that every model's table ends with.
const FieldTable<ModelConfig>& ModelConfigFields();

// A number of layers: Error(kUsage) of the field `name`.
void CheckLayers(const char* name, int64_t layers);

// {"model": name, …}
template <typename Config>
Json ModelJson(const FieldTable<Config>& table, const Config& config) {
  Json json = Json::MakeObject({{"model", config.model()}});
  const Json fields = FieldsToJson(table, config);
  for (const auto& [key, value] : fields.AsObject()) json.Set(key, value);
  return json;
}

// Reads it back, and validates it. Error(kData) with `source` and the key for what is missing, unknown or cannot be.
template <typename Config>
Config ModelConfigFromJson(const FieldTable<Config>& table, const Json& json, const std::string& source) {
  const std::string& model = JsonReader(json, source).String("model");
  Json members = Json::MakeObject();
  for (const auto& [key, value] : json.AsObject()) {
    if (key != "model") members.Set(key, value);
  }
  Config config = FieldsFromJson(table, members, source);
  if (model != config.model()) {
    Fail(ErrorKind::kData, source, ": model: ", Quoted(model), " is not ", Quoted(config.model()));
  }
  try {
    config.Validate();
  } catch (const Error& error) {
    Fail(ErrorKind::kData, source, ": ", error.what());
  }
  return config;
}

}  // namespace crosstalk
