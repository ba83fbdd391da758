#include "crosstalk/nn/attention/fused.h"

#include "crosstalk/autograd/ops_attention.h"
#include "crosstalk/autograd/ops_shape.h"
#include "crosstalk/nn/attention/project.h"

namespace crosstalk {

AttentionResult AttendFused(const AttentionConfig& config, const AttentionParameters& p, const Variable& X,
                            const AttentionMemory& memory, const AttentionExtras& extras,
                            const std::optional<RandomKey>& dropout_key) {
  CROSSTALK_CHECK(extras.outputs == AttentionOutputs::kOutputOnly,
                  "attention: the fused implementation never holds the weights W; ask the composed one for them");
  const Dims dims = CheckAttentionInputs(config, X, memory, extras);
  const AttentionQueries queries = ProjectQueries(config, p, X);
  const bool own_memory = config.form == AttentionForm::kProjected;

  FusedAttentionInputs inputs;
  inputs.Q = queries.Q;
  inputs.K = memory.K;
  inputs.V = own_memory && !config.tied() ? memory.V : memory.K;
  inputs.memory_heads = own_memory ? kernels::MemoryHeads::kPerHead : kernels::MemoryHeads::kMultiQuery;
  inputs.P_l = p.P_l;
  inputs.P_w = p.P_w;
  inputs.R_Xl = queries.R_Xl;
  inputs.R_Ml = memory.R_Ml;
  inputs.R_Xw = queries.R_Xw;
  inputs.R_Mw = memory.R_Mw;
  if (extras.bias.by_distance()) {
    inputs.bias_table = extras.bias.values;
    inputs.distance_bucket = extras.bias.distance_bucket;
  } else if (extras.bias.defined()) {
    inputs.bias = Reshape(extras.bias.values, {config.h, dims["n"], dims["m"]});
  }
  inputs.scale = config.scale;
  inputs.causality = config.causality;
  inputs.memory_mask = extras.mask.memory;
  inputs.pair_mask = extras.mask.pairs;
  if (dropout_key.has_value()) {
    inputs.dropout_rate = config.dropout_rate;
    inputs.dropout_key = *dropout_key;
  }
  AttentionResult result;
  result.Y = ProjectOutput(config, p, FusedAttention(inputs));
  result.implementation = AttentionImplementation::kFused;
  return result;
}

}  // namespace crosstalk
