#include "crosstalk/models/lm/build.h"

#include "crosstalk/models/lm/lm.h"
#include "crosstalk/models/training/config.h"

namespace crosstalk {

Json ConfigureLm(const TrainingConfig& config, const Vocabulary& vocabulary) {
  LmConfig model;
  model.SetFrom(config, vocabulary);
  model.layers = config.layers;
  model.context = config.input_length;
  model.attention = MakeAttentionLayer(config);
  model.attention.causality = Causality::kCausal;
  model.positions = config.positions;
  model.Validate();
  return ToJson(model);
}

std::unique_ptr<Model> MakeLm(const Json& config, const std::string& source, const Initializer& init) {
  return std::make_unique<Lm>(LmConfigFromJson(config, source), init);
}

}  // namespace crosstalk
