#include "crosstalk/models/bert/albert_config.h"

#include <iterator>

#include "crosstalk/runtime/check.h"

namespace crosstalk {

void ResolveAlbert(ModelOptions& options, int64_t input_length) {
  if (!options.feed_forward) options.feed_forward = FeedForwardKind::kGeluTanh;
  if (!options.embedding_size) options.embedding_size = options.d_model;  // the paper's E = H
  if (!options.layer_groups) options.layer_groups = 1;
  if (!options.inner_layers) options.inner_layers = 1;
  ResolveBert(options, input_length);
}

std::unique_ptr<ModelConfig> ConfigureAlbert(const ModelOptions& options, const ModelPurpose& purpose) {
  auto config = std::make_unique<BertConfig>(EncoderConfig(options, purpose));
  config->embedding_size = options.embedding_size.value_or(options.d_model);
  config->layer_groups = options.layer_groups.value_or(1);
  config->inner_layers = options.inner_layers.value_or(1);
  CROSSTALK_CHECK_FIELD(std::ssize(options.layer_kinds) <= config->num_blocks(), "layer_kinds",
                        options.layer_kinds.size(), " kinds, but the layers of an ALBERT share ", config->num_blocks(),
                        config->num_blocks() == 1 ? " block" : " blocks",
                        "; layer_groups and inner_layers say how many there are");
  SetLayerKinds(options, *config);
  config->Validate();
  return config;
}

}  // namespace crosstalk
