// Chapter 1 of the course (examples/course/1_tensors.md): tensors whose dimensions have names, views that share
// elements, and einsum, which multiplies over all names and sums over those that the result does not have.
#include <cstdio>
#include <string>
#include <vector>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/shape.h"
#include "crosstalk/runtime/tensor.h"

using namespace crosstalk;  // an example may

namespace {

void Print(const char* name, const Tensor& t) {
  std::printf("%s %s, strides %s:", name, ToString(t.shape()).c_str(), ToString(t.strides()).c_str());
  for (const double value : t.Contiguous().ToVector<double>()) std::printf(" %g", value);
  std::printf("\n");
}

Tensor Counting(const Shape& shape) {
  Tensor t = Tensor::Empty(shape, DType::kFloat64);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.data<double>()[i] = static_cast<double>(i);
  return t;
}

}  // namespace

int main() {
  // One array of six numbers; the shape and the strides say how to read it.
  const Tensor T = Counting({2, 3});
  Print("T      ", T);
  Print("T^T    ", T.Transpose(0, 1));  // the same six numbers, read down the columns
  Print("T[:,1:]", T.Slice(1, 1, 3));   // and two columns of them
  T.data<double>()[1] = 10;             // all three see it
  Print("T^T    ", T.Transpose(0, 1));

  // Names say what dimensions are; the same name is the same size, or it is an error that shows both.
  const Variable X(Counting({2, 3})), P_q(Counting({3, 2, 4})), other(Counting({5, 2, 4}));
  const char* projection = "Q[n, d_k, h] = einsum(X[n, d_X], P_q[d_X, d_k, h])";
  Print("Q      ", Einsum(projection, {X, P_q}).value());
  try {
    Einsum(projection, {X, other});
  } catch (const Error& error) {
    std::printf("an error: %s\n", error.what());
  }

  // What a name does follows from where it stands.
  const Variable a(Counting({3})), b(Counting({3}));
  std::printf("in both, not in the result: a sum          %g\n",
              Einsum("s[] = einsum(a[i], b[i])", {a, b}).value().Item());
  Print("in both and in the result: side by side   ", Einsum("c[i] = einsum(a[i], b[i])", {a, b}).value());
  Print("in one each: every pair                   ", Einsum("c[i, j] = einsum(a[i], b[j])", {a, b}).value());

  // Three operands are contracted two at a time, in the order that multiplies least.
  const std::string line = "L[n, m] = einsum(X[n, d_X], P[d_X, d_M], M[m, d_M])";
  const std::vector<Shape> shapes = {{2, 64}, {64, 64}, {512, 64}};
  std::printf("%s takes %lld multiplications\n%s\n", line.c_str(),
              static_cast<long long>(EinsumMultiplications(line, shapes)), DescribeEinsum(line, shapes).c_str());
}
