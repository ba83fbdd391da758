// Chapter 5 of the course (examples/course/5_talking_heads.md): heads that talk. Two heads each look for one thing, and
// the mixings P_l and P_w let the others use what they found; the rank of what a head can compare; dynamic projections.
#include <cmath>
#include <cstdio>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/runtime/random.h"

using namespace crosstalk;  // an example may

namespace {

Variable Values(const Shape& shape, const std::vector<double>& values) {
  return Variable(Tensor::FromValues<double>(shape, values));
}

Variable Random(const char* name, const Shape& shape) {
  const Tensor tensor = Tensor::Empty(shape, DType::kFloat64);
  FillNormal(tensor, {.seed = 1, .stream = StreamId(name)}, 0, 1);
  return Variable(tensor);
}

// A row for each head of T[heads, m].
void Print(const char* name, const Variable& T) {
  for (int64_t h = 0; h < T.size(0); ++h) {
    std::printf("  %s[h=%d]", name, static_cast<int>(h));
    for (int64_t m = 0; m < T.size(1); ++m) std::printf(" %6.2f", T.value().At({h, m}));
    std::printf("\n");
  }
}

// One query reads "red square, blue square, red circle, blue circle". Key head 0 knows red, key head 1 knows circles.
void FindTheRedCircle() {
  const Variable J = Values({2, 4}, {3, 0, 3, 0,    // J[h_k, m]: red?
                                     0, 0, 3, 3});  //            a circle?
  const Variable one = Values({2, 2}, {1, 0, 0, 1});
  const Variable P_l = Values({2, 2}, {1, 1,     // P_l[h_k, h]: softmax head 0 adds both questions,
                                       1, -1});  //              head 1 asks for what is red and no circle
  const Variable P_w = Values({2, 2}, {1, 1,     // P_w[h, h_v]: value head 0 reads what softmax head 0 found,
                                       0, -1});  //              value head 1 that without what head 1 found
  const Variable apart = Softmax(Einsum("L[h, m] = einsum(J[h_k, m], P_l[h_k, h])", {J, one}), 1);
  const Variable W = Softmax(Einsum("L[h, m] = einsum(J[h_k, m], P_l[h_k, h])", {J, P_l}), 1);
  const Variable U = Einsum("U[h_v, m] = einsum(W[h, m], P_w[h, h_v])", {W, P_w});
  std::printf("heads apart: neither finds the red circle (m=2) alone\n");
  Print("W", apart);
  std::printf("heads that talk before the softmax: head 0 does\n");
  Print("W", W);
  std::printf("and after it: weights may be negative\n");
  Print("U", U);
}

// The rank of a[rows, cols]: elimination with the largest pivot.
int Rank(const Tensor& a) {
  Tensor left = a.Clone();
  const int64_t rows = left.size(0), cols = left.size(1);
  double* x = left.data<double>();
  int rank = 0;
  for (int64_t col = 0; col < cols && rank < rows; ++col) {
    int64_t pivot = rank;
    for (int64_t i = rank; i < rows; ++i)
      if (std::abs(x[i * cols + col]) > std::abs(x[pivot * cols + col])) pivot = i;
    if (std::abs(x[pivot * cols + col]) < 1e-9) continue;
    for (int64_t j = 0; j < cols; ++j) std::swap(x[pivot * cols + j], x[rank * cols + j]);
    for (int64_t i = rank + 1; i < rows; ++i) {
      const double factor = x[i * cols + col] / x[rank * cols + col];
      for (int64_t j = 0; j < cols; ++j) x[i * cols + j] -= factor * x[rank * cols + j];
    }
    ++rank;
  }
  return rank;
}

// L[h] = X·P[h]·M: of which rank is P[h]? d = h_k · d_k stays the same, however many heads share it.
void MeasureTheBottleneck() {
  constexpr int64_t d = 24;
  std::printf("rank of what one head compares, width %d\n  heads  d_k  multi-head  talking\n", static_cast<int>(d));
  for (const int64_t heads : {2, 4, 12, 24}) {
    const int64_t d_k = d / heads;
    const Variable P_q = Random("P_q", {d, d_k, heads}), P_k = Random("P_k", {d, d_k, heads});
    const Variable P_l = Random("P_l", {heads, heads});
    const Variable alone = Einsum("P[h, d_X, d_M] = einsum(P_q[d_X, d_k, h], P_k[d_M, d_k, h])", {P_q, P_k});
    const Variable mixed =
        Einsum("P[h, d_X, d_M] = einsum(P_q[d_X, d_k, h_k], P_k[d_M, d_k, h_k], P_l[h_k, h])", {P_q, P_k, P_l});
    std::printf("  %5d  %3d  %10d  %7d\n", static_cast<int>(heads), static_cast<int>(d_k),
                Rank(alone.value().Select(0, 0)), Rank(mixed.value().Select(0, 0)));
  }
}

// Dynamic: each query n brings a matrix of its own, which is added to P_l.
void MixByTheQuery() {
  const Variable J = Values({2, 2, 3}, {3, 0, 1, 0, 2, 1, 3, 0, 1, 0, 2, 1});  // J[n, h_k, m], both queries alike
  const Variable P_l = Values({2, 2}, {1, 0, 0, 1});
  const Variable X = Values({2, 2}, {1, 0, 0, 1});                      // X[n, d_X]
  const Variable P_Xl = Values({2, 2, 2}, {0, 0, 0, 0, -1, 1, 1, -1});  // P_Xl[d_X, h_k, h]: d_X=1 swaps heads
  const Variable R_Xl = Einsum("R_Xl[n, h_k, h] = einsum(X[n, d_X], P_Xl[d_X, h_k, h])", {X, P_Xl});
  const Variable L = Einsum("L[n, h, m] = einsum(J[n, h_k, m], P_l[h_k, h])", {J, P_l}) +
                     Einsum("L[n, h, m] = einsum(J[n, h_k, m], R_Xl[n, h_k, h])", {J, R_Xl});
  std::printf("dynamic: the same J, and a query that keeps its heads, one that swaps them\n");
  for (int64_t n = 0; n < 2; ++n) Print(n == 0 ? "L[n=0]" : "L[n=1]", Variable(L.value().Select(0, n)));
}

}  // namespace

int main() {
  FindTheRedCircle();
  MeasureTheBottleneck();
  MixByTheQuery();
}
