// Chapter 8 of the course (examples/course/8_decoding.md): a layer that decodes with a cache gives what it gives all at
// once; what the cache takes; and what happens where dynamic projections are cached as the published code does.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/runtime/random.h"

using namespace crosstalk;  // an example may

namespace {

constexpr int64_t n = 6, d = 8, d_k = 2, h = 4;

Variable Random(const char* name, const Shape& shape, double stddev) {
  Tensor tensor = Tensor::Empty(shape, DType::kFloat64);
  FillNormal(tensor, {.seed = 1, .stream = StreamId(name)}, 0, stddev);
  return Variable(tensor);
}

struct Layer {
  Variable P_q = Random("P_q", {d, d_k, h}, 0.5), P_k = Random("P_k", {d, d_k, h}, 0.5);
  Variable P_v = Random("P_v", {d, d_k, h}, 0.5), P_l = Random("P_l", {h, h}, 0.5);
  Variable P_Ml = Random("P_Ml", {d, h, h}, 0.2);  // a matrix R_Ml of each memory position
};

// O[n, d_v, h] of the queries X and the memory that K, V and R_Ml were made of; query i sees m ≤ i + first.
Variable Attend(const Layer& p, const Variable& X, const Variable& K, const Variable& V, const Variable& R_Ml,
                int64_t first) {
  const Variable Q = Einsum("Q[n, d_k, h_k] = einsum(X[n, d_X], P_q[d_X, d_k, h_k])", {X, p.P_q});
  const Variable J = Scale(Einsum("J[n, m, h_k] = einsum(Q[n, d_k, h_k], K[m, d_k, h_k])", {Q, K}), 1 / std::sqrt(d_k));
  const Variable L = Einsum("L[n, m, h] = einsum(J[n, m, h_k], P_l[h_k, h])", {J, p.P_l}) +
                     Einsum("L[n, m, h] = einsum(J[n, m, h_k], R_Ml[m, h_k, h])", {J, R_Ml});
  const Tensor sees = Tensor::Full({X.size(0), K.size(0), 1}, 0, DType::kBool);
  for (int64_t i = 0; i < X.size(0); ++i)
    for (int64_t m = 0; m <= i + first; ++m) sees.data<bool>()[i * K.size(0) + m] = true;
  const Variable W = Softmax(MaskedFillUnless(L, sees, -INFINITY), 1);
  return Einsum("O[n, d_v, h] = einsum(W[n, m, h], V[m, d_v, h])", {W, V});
}

Variable Keys(const Variable& X, const Variable& P) {
  return Einsum("K[m, d_k, h_k] = einsum(M[m, d_M], P[d_M, d_k, h_k])", {X, P});
}
Variable Matrices(const Layer& p, const Variable& X) {
  return Einsum("R_Ml[m, h_k, h] = einsum(M[m, d_M], P_Ml[d_M, h_k, h])", {X, p.P_Ml});
}

Variable Token(const Variable& X, int64_t i) { return Variable(X.value().Slice(0, i, i + 1)); }

// Token after token; what a position made is kept. published: but R_Ml is the current token's, for all positions.
std::vector<double> Decode(const Layer& p, const Variable& X, bool published) {
  std::vector<Variable> K, V, R_Ml;
  std::vector<double> results;
  for (int64_t i = 0; i < n; ++i) {
    const Variable x = Token(X, i);
    K.push_back(Keys(x, p.P_k));
    V.push_back(Keys(x, p.P_v));
    R_Ml.push_back(Matrices(p, x));
    if (published) std::fill(R_Ml.begin(), R_Ml.end(), R_Ml.back());
    const Variable O = Attend(p, x, Concat(K, 0), Concat(V, 0), Concat(R_Ml, 0), i);
    for (const double value : O.value().ToVector<double>()) results.push_back(value);
  }
  return results;
}

}  // namespace

int main() {
  const Layer p;
  const Variable X = Random("X", {n, d}, 1);
  const std::vector<double> whole =
      Attend(p, X, Keys(X, p.P_k), Keys(X, p.P_v), Matrices(p, X), 0).value().ToVector<double>();
  for (const bool published : {false, true}) {
    const std::vector<double> steps = Decode(p, X, published);
    std::printf("%s\n  step  largest difference from the whole pass\n",
                published ? "R_Ml of the current token, for all positions" : "R_Ml of each position, kept");
    for (int64_t i = 0; i < n; ++i) {
      double difference = 0, size = d_k * h;
      for (int64_t e = 0; e < d_k * h; ++e) {
        const auto at = static_cast<size_t>(static_cast<double>(i) * size) + static_cast<size_t>(e);
        difference = std::max(difference, std::abs(steps[at] - whole[at]));
      }
      std::printf("  %4d  %.2f\n", static_cast<int>(i), difference < 1e-12 ? 0 : difference);
    }
  }
  std::printf("floats of a position and layer, d = 512\n  heads  static  dynamic\n");
  for (const int heads : {8, 16, 32}) {
    std::printf("  %5d  %6d  %7d\n", heads, 2 * 512, 2 * 512 + 2 * heads * heads);
  }
}
