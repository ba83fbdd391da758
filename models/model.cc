#include "crosstalk/models/model.h"

#include "crosstalk/nn/attention/attention.h"

namespace crosstalk {

std::string AttentionImplementationText(const Model& model) {
  bool fused = false, composed = false;
  for (const AttentionPlace& place : model.AttentionPlaces()) {
    const AttentionImplementation implementation =
        ImplementationFor(place.config, DType::kFloat32, AttentionOutputs::kOutputOnly);
    (implementation == AttentionImplementation::kFused ? fused : composed) = true;
  }
  if (fused && composed) return "fused and composed";
  return composed ? "composed" : "fused";
}

}  // namespace crosstalk
