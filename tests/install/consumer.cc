// A program of somebody else's: compiled and run by install_test against an installed copy, with nothing but what
// pkg-config says. It takes one gradient through the paper's notation and prints it.
#include <cstdio>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/ops_reduce.h"
#include "crosstalk/runtime/tensor.h"

int main() {
  using crosstalk::Tensor;
  using crosstalk::Variable;
  const Variable A(Tensor::FromValues<float>({2, 3}, {1, 2, 3, 4, 5, 6}), Variable::RequiresGrad::kYes);
  const Variable B(Tensor::FromValues<float>({3, 1}, {1, 10, 100}));
  const Variable C = crosstalk::Einsum("C[i,k] = einsum(A[i,j], B[j,k])", {A, B});
  crosstalk::Backward(crosstalk::Sum(C));
  std::printf("%g %g %g\n", C.value().At({0, 0}), C.value().At({1, 0}), A.grad().At({1, 2}));
  return 0;
}
