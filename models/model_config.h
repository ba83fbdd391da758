// ModelConfig: what a model is built from, except its parameters' values. Every model has one of its own, with a table
// of fields for its file form, that begins with this one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/nn/attention/bias.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/nn/transformer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/field.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// ModelOptions: what a user says of a model, whichever it is, and its table of fields. A model's own configuration
// (model_config.h) follows from it and from what the model is for.

// Where the logits' factor 1/sqrt(d_k) is: in P_q's initial values, or applied to J.
enum class AttentionScale { kFolded, kExplicit };
template <>
struct EnumNames<AttentionScale> {
  static constexpr EnumName<AttentionScale> kTable[] = {{AttentionScale::kFolded, "folded"},
                                                        {AttentionScale::kExplicit, "explicit"}};
};

// The fields' rows say what they mean.
struct ModelOptions {
  std::string name = "lm";
  AttentionOptions attention = {.heads = 8};
  std::optional<AttentionKind> encoder_self_kind;
  std::optional<AttentionKind> decoder_self_kind;
  std::optional<AttentionKind> encoder_decoder_kind;
  MixingInit mixing_init = MixingInit::kRandom;
  std::optional<AttentionScale> attention_scale;
  KeyValueProjection keys_values = KeyValueProjection::kSeparate;
  AttentionImplementation implementation = AttentionImplementation::kFused;
  int64_t d_model = 128;
  int64_t d_ff = 512;
  int64_t layers = 2;
  std::optional<int64_t> decoder_layers;
  std::optional<FeedForwardKind> feed_forward;
  ClassifierKind classifier = ClassifierKind::kTied;
  PositionScheme positions = PositionScheme::kRelativeBias;
  Rotary rotary = Rotary::kHalves;  // of PositionScheme::kRotary
  double rotary_base = 10'000;
  std::vector<AttentionKind> layer_kinds;
  std::optional<int64_t> max_positions;
  std::optional<int64_t> embedding_size;
  std::optional<int64_t> layer_groups;
  std::optional<int64_t> inner_layers;
  std::optional<double> initial_stddev;
  int64_t relative_buckets = 32;
  int64_t relative_attention_max_distance = 128;
  double dropout = 0;
};

// The models that there are, and which of them read which field, are added where they are known (TrainingFields()).
const FieldTable<ModelOptions>& ModelFields();
// The fields of an attention layer, which other commands take too.
const FieldTable<AttentionOptions>& AttentionFields();

// A tokenizer's properties for a model.
struct Vocabulary {
  int64_t size = 0;  // ids, sentinels counted
  SpecialTokens tokens;
};

// The head on an encoder's output.
struct EncoderHeads {
  bool pooler = false;    // tanh of a dense layer over the first position: what the next three read
  bool sentence = false;  // next sentence (BERT), sentence order (ALBERT): two classes
  int64_t classes = 0;    // of a classification; 1: regression; 0: none
  bool multiple_choice = false;
  bool masked_lm = false;  // what stood at each position
  bool span = false;       // where an answer begins and ends
};

// Settings of a model besides its options.
struct ModelPurpose {
  Vocabulary vocabulary;
  int64_t input_length = 0;  // tokens of an example's input
  EncoderHeads heads;        // that its objective trains
};

// An attention layer of a model: the options' one, except the kind where a place has its own. Error(kUsage) of the
// field at fault.
AttentionConfig MakeAttentionLayer(const ModelOptions& options, std::optional<AttentionKind> kind = std::nullopt);
// Those of so many layers by their layer_kinds, in turn and again from the first; none where all are of one kind.
std::vector<AttentionConfig> MakeAttentionLayers(const ModelOptions& options, int64_t layers);

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
