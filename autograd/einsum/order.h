// Reads einsum equations in the paper's notation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/shape.h"

namespace crosstalk {

// "Q[n, d_k] = einsum(X[n, d_X], P[d_X, d_k])", taken apart.
struct EinsumEquation {
  Bracket result;
  std::vector<Bracket> operands;
};

// Spaces and line breaks are free; "# …" to the end of a line is a comment. Throws a usage error that quotes the
// equation if it is not of that form, where a bracket names a dimension twice, or if it is longer than 1,000
// bytes.
EinsumEquation ParseEinsum(std::string_view text);

// "Q[n, d_k]"
std::string ToString(const Bracket& bracket);
// The equation on one line.
std::string ToString(const EinsumEquation& equation);

// Turns an einsum equation and the shapes of its operands into steps: contractions of two tensors in the order of least
// cost, or the permutation of one.

struct EinsumStep {
  int a = 0;                    // values are numbered: the operands, then the result of each step
  int b = -1;                   // -1: `a` in the order of `labels`
  std::vector<int> labels;      // of the result
  int64_t multiplications = 0;  // the product of all sizes of a and b; 0 without b
};

struct EinsumPlan {
  std::vector<std::string> names;          // of each label
  std::vector<int64_t> sizes;              // of each label
  std::vector<std::vector<int>> operands;  // labels of each operand
  std::vector<int> result;
  std::vector<EinsumStep> steps;  // none: one operand, in the order of the result
  int64_t multiplications = 0;
};

// Every order of pairs is weighed for up to 6 operands; above, the cheapest pair is taken each time. The cost is the
// number of multiplications, then the size of what is kept in between, then the order in which the operands stand.
// Usage errors as documented at Einsum.
EinsumPlan PlanEinsum(const EinsumEquation& equation, const std::vector<Shape>& shapes);

}  // namespace crosstalk
