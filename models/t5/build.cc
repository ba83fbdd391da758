#include "crosstalk/models/t5/build.h"

#include "crosstalk/models/t5/config.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/models/training/config.h"

namespace crosstalk {

void ResolveT5(TrainingConfig& config) {
  if (!config.decoder_layers) config.decoder_layers = config.layers;
}

Json ConfigureT5(const TrainingConfig& config, const Vocabulary& vocabulary) {
  T5Config model;
  model.vocabulary = vocabulary.size;
  model.tokens = vocabulary.tokens;
  model.d_model = config.d_model;
  model.d_ff = config.d_ff;
  model.encoder_layers = config.layers;
  model.decoder_layers = config.decoder_layers.value_or(config.layers);
  model.feed_forward = config.feed_forward;
  model.classifier = config.classifier;
  model.relative_buckets = config.relative_buckets;
  model.relative_attention_max_distance = config.relative_attention_max_distance;
  model.dropout_rate = config.dropout;
  model.SetAttention(MakeAttentionLayer(config, config.encoder_self_kind),
                     MakeAttentionLayer(config, config.decoder_self_kind),
                     MakeAttentionLayer(config, config.encoder_decoder_kind));
  model.Validate();
  return ToJson(model);
}

std::unique_ptr<Model> MakeT5(const Json& config, const std::string& source, const Initializer& init) {
  return std::make_unique<T5>(T5ConfigFromJson(config, source), init);
}

}  // namespace crosstalk
