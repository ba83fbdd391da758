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
  model.SetFrom(config, vocabulary);
  model.encoder_layers = config.layers;
  model.decoder_layers = config.decoder_layers.value_or(config.layers);
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
