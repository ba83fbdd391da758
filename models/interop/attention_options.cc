#include "crosstalk/models/interop/attention_options.h"

#include <string>
#include <vector>

#include "crosstalk/nn/attention/projections.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

AttentionOptions OptionsOf(const AttentionConfig& layer) {
  AttentionOptions options = {.heads = layer.h};
  if (layer.form == AttentionForm::kBilinear) {
    options.kind = AttentionKind::kBilinear;
    return options;
  }
  if (layer.h_k != layer.h) options.key_heads = layer.h_k;
  if (layer.h_v != layer.h) options.value_heads = layer.h_v;
  if (layer.d_k * layer.h_k != layer.d_X) options.key_size = layer.d_k;
  if (layer.d_v * layer.h_v != layer.d_X) options.value_size = layer.d_v;
  const HeadMixing& mixing = layer.mixing;
  options.kind = mixing.P_l && mixing.P_w ? AttentionKind::kTalking
                 : mixing.P_l             ? AttentionKind::kLogits
                 : mixing.P_w             ? AttentionKind::kWeights
                                          : AttentionKind::kMultihead;
  if (layer.dynamic_form == DynamicForm::kLowRank) options.kind = AttentionKind::kDcmha;
  if (layer.differential == Differential::kV1) options.kind = AttentionKind::kDiffV1;
  if (layer.differential == Differential::kV2) options.kind = AttentionKind::kDiffV2;
  std::vector<std::string> dynamic;
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (IsDynamic(projection) && IsPresent(projection, layer)) dynamic.emplace_back(DynamicName(projection));
  }
  if (dynamic.size() == 4 && options.kind == AttentionKind::kTalking) {
    options.kind = AttentionKind::kDynamic;
  } else if (!dynamic.empty()) {
    options.dynamic = Join(dynamic, ",");
  }
  return options;
}

}  // namespace crosstalk
