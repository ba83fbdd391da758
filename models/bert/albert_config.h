// ALBERT: a BERT with an embedding size of its own and layers that share blocks. The model and its configuration are
// models/bert's.
#pragma once

#include <cstdint>
#include <memory>

#include "crosstalk/models/bert/config.h"

namespace crosstalk {

// BERT's, but with LAMB and ALBERT's own examples.
inline constexpr Recipe kAlbertRecipe = {.optimizer = OptimizerKind::kLamb,
                                         .bias_correction = kBertRecipe.bias_correction,
                                         .clip = kBertRecipe.clip,
                                         .z_loss = kBertRecipe.z_loss,
                                         .masking = Masking::kNgrams,
                                         .sentence_task = SentenceTask::kSentenceOrder};
// BERT's, but with tanh GELU, and one block for all layers.
void ResolveAlbert(ModelOptions& options, int64_t input_length);
std::unique_ptr<ModelConfig> ConfigureAlbert(const ModelOptions& options, const ModelPurpose& purpose);

}  // namespace crosstalk
