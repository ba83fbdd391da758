// A contraction as the gradient of an op's input.
#pragma once

#include "crosstalk/autograd/einsum/contraction.h"
#include "crosstalk/autograd/op.h"

namespace crosstalk {

// Adds Σ a · b to the gradient of input i, which it needs: within the product where it can, which saves a pass over the
// gradient.
inline void AddContraction(Gradients& gradients, int i, const Tensor& a, const math::Labels& labels_a, const Tensor& b,
                           const math::Labels& labels_b, const math::Labels& labels) {
  if (Tensor* const sum = gradients.Accumulator(i); sum != nullptr) {
    math::AddContraction(a, labels_a, b, labels_b, labels, *sum);
  } else {
    gradients.Add(i, math::Contract(a, labels_a, b, labels_b, labels));
  }
}

}  // namespace crosstalk
