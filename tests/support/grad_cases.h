// One table of differentiable operations with inputs to check them on: every op × shape × option, all dimensions
// distinct and odd where the op allows it. Used by the gradient, precision and thread tests of tests/autograd.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "crosstalk/autograd/variable.h"

namespace crosstalk::testing {

struct GradCase {
  std::string name;            // letters, digits and _: part of a test's name
  std::vector<Tensor> inputs;  // float64
  std::function<Variable(const std::vector<Variable>&)> function;
};

// All of them, in a fixed order.
const std::vector<GradCase>& GradCases();

// Uniform in [low, high), float64, a fixed function of `name` and the shape.
Tensor RandomTensor(const std::string& name, const Shape& shape, double low = -1, double high = 1);
// The same elements, stored in the opposite order of dimensions: a view that is not contiguous (rank ≥ 2).
Tensor Strided(const Tensor& x);
// Every element is `value`; float64, requires a gradient.
Variable Leaf(const Shape& shape, double value);

}  // namespace crosstalk::testing
