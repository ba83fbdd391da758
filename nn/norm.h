// Normalisation over the last dimension.
#pragma once

#include <cstdint>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

enum class NormKind {
  kRms,    // y = x · rsqrt(mean(x²) + epsilon) · scale: no mean is subtracted, there is no bias (T5, epsilon 1e-6)
  kLayer,  // y = (x - mean) · rsqrt(variance + epsilon) · scale + bias (BERT, epsilon 1e-12)
};
template <>
struct EnumNames<NormKind> {
  static constexpr EnumName<NormKind> kTable[] = {{NormKind::kRms, "rms"}, {NormKind::kLayer, "layer"}};
};

struct NormConfig {
  NormKind kind = NormKind::kRms;
  double epsilon = 1e-6;
};

// Parameters scale[d], which starts at 1, and of kLayer bias[d], which starts at 0.
class NormLayer : public Module {
 public:
  NormLayer(int64_t d, const NormConfig& config, const Initializer& init);
  Variable Forward(const Variable& x) const;  // […, d] → […, d]

 private:
  NormConfig config_;
  Variable scale_, bias_;
};

}  // namespace crosstalk
