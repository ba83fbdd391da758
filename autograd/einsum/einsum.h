// einsum over named dimensions, in the paper's notation (section 2): broadcast every operand to the union of all
// dimensions, multiply componentwise, and sum over each dimension that the result does not name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/autograd/variable.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// Takes the paper's lines as they stand:
//   Variable Q = Einsum("Q[n,d_k,h] = einsum(X[n,d_X], P_q[d_X,d_k,h])", {X, P_q});
// Spaces and line breaks are free, a trailing "# comment" is ignored, and any number of operands ≥ 1 is taken: one is
// permuted, several are contracted two at a time in the order of least cost (see DescribeEinsum). The result is
// contiguous, in the order of its bracket. Differentiable; float and double.
// Usage errors, naming the dimension and the tensors: a size that differs, a rank that does not fit, a dimension of
// the result that no operand has, a dimension that stands in one operand and nowhere else (Sum is for those), a
// dimension twice in one bracket, a number of operands that does not fit, an operand that is undefined.
Variable Einsum(std::string_view equation, const std::vector<Variable>& operands);

// The same with dimension objects instead of text. Dimensions are equal if their names are.
//   const Dim n("n"), d_X("d_X"), d_k("d_k"), h("h");
//   Variable Q = Einsum({n, d_k, h}, {{X, {n, d_X}}, {P_q, {d_X, d_k, h}}});
class Dim {
 public:
  explicit Dim(std::string name);  // a letter or _, then letters, digits and _
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};
struct EinsumOperand {
  Variable value;
  std::vector<Dim> dims;
};
Variable Einsum(const std::vector<Dim>& result, const std::vector<EinsumOperand>& operands);

// How many scalar multiplications the planned order takes: for each contraction of two operands, the product of the
// sizes of all dimensions that either has (the cost that the paper's comments count). 0 for one operand.
int64_t EinsumMultiplications(std::string_view equation, const std::vector<Shape>& shapes);

// The plan in words, one line for each contraction, what is made on the way named T1, T2, …:
//   T1[n, h] = einsum(X[n, d], P[d, h])  # 105 multiplications
//   L[n, m] = einsum(T1[n, h], K[m, h])  # 63 multiplications
std::string DescribeEinsum(std::string_view equation, const std::vector<Shape>& shapes);

}  // namespace crosstalk
#pragma GCC visibility pop
