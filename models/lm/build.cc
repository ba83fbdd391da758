#include "crosstalk/models/lm/build.h"

#include "crosstalk/models/lm/lm.h"
#include "crosstalk/models/training/config.h"

namespace crosstalk {

Json ConfigureLm(const TrainingConfig& config, const Vocabulary& vocabulary) {
  LmConfig model;
  model.vocabulary = vocabulary.size;
  model.tokens = vocabulary.tokens;
  model.d_model = config.d_model;
  model.d_ff = config.d_ff;
  model.layers = config.layers;
  model.context = config.input_length;
  model.attention = MakeAttentionLayer(config);
  model.attention.causality = Causality::kCausal;
  model.positions = config.positions;
  model.feed_forward = config.feed_forward;
  model.classifier = config.classifier;
  model.relative_buckets = config.relative_buckets;
  model.relative_attention_max_distance = config.relative_attention_max_distance;
  model.dropout_rate = config.dropout;
  model.Validate();
  return ToJson(model);
}

std::unique_ptr<Model> MakeLm(const Json& config, const std::string& source, const Initializer& init) {
  return std::make_unique<Lm>(LmConfigFromJson(config, source), init);
}

}  // namespace crosstalk
