// Normalisation over the last dimension.
#pragma once

#include <cstdint>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/nn/module.h"

namespace crosstalk {

// y = x · rsqrt(mean(x²) + eps) · scale: no mean is subtracted, there is no bias (T5, eps 1e-6). scale[d] starts at 1.
class RmsNormLayer : public Module {
 public:
  RmsNormLayer(int64_t d, double eps, const Initializer& init);
  Variable Forward(const Variable& x) const;  // […, d] → […, d]

 private:
  double eps_;
  Variable scale_;
};

// y = (x - mean) · rsqrt(variance + eps) · scale + bias (BERT, eps 1e-12). scale[d] starts at 1, bias[d] at 0.
class LayerNormLayer : public Module {
 public:
  LayerNormLayer(int64_t d, double eps, const Initializer& init);
  Variable Forward(const Variable& x) const;  // […, d] → […, d]

 private:
  double eps_;
  Variable scale_, bias_;
};

}  // namespace crosstalk
