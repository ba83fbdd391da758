// Chapter 3 of the course (examples/course/3_attention.md): attention as loops, as einsum, and its gradients, by hand
// and by the tape. All numbers are one example's: Q[n, d_k, h], K[m, d_k, h], V[m, d_v, h].
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/runtime/random.h"

using namespace crosstalk;  // an example may

namespace {

constexpr int64_t n = 3, m = 4, d_k = 2, d_v = 2, h = 2;
const double scale = 1 / std::sqrt(static_cast<double>(d_k));

Tensor Random(const char* name, const Shape& shape) {
  Tensor tensor = Tensor::Empty(shape, DType::kFloat64);
  FillNormal(tensor, {.seed = 1, .stream = StreamId(name)}, 0, 1);
  return tensor;
}

// As loops: every line of the equations is a loop over the dimensions that it names.
struct Loops {
  double W[n][m][h] = {}, O[n][d_v][h] = {};                                            // forward
  double dW[n][m][h] = {}, dQ[n][d_k][h] = {}, dK[m][d_k][h] = {}, dV[m][d_v][h] = {};  // backward

  void Forward(const double* Q, const double* K, const double* V) {
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < h; ++k) {
        double sum = 0;
        for (int j = 0; j < m; ++j) {
          double J = 0;  // J[n, m, h] = scale · Σ_d_k Q · K
          for (int d = 0; d < d_k; ++d) J += scale * Q[(i * d_k + d) * h + k] * K[(j * d_k + d) * h + k];
          sum += W[i][j][k] = std::exp(J);
        }
        for (int j = 0; j < m; ++j) {
          W[i][j][k] /= sum;                                                                  // W = softmax of J over m
          for (int d = 0; d < d_v; ++d) O[i][d][k] += W[i][j][k] * V[(j * d_v + d) * h + k];  // O = Σ_m W · V
        }
      }
  }

  // The same lines, last one first.
  void Backward(const double* Q, const double* K, const double* V, const double* dO) {
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < h; ++k) {
        double D = 0;
        for (int j = 0; j < m; ++j) {
          for (int d = 0; d < d_v; ++d) {
            dW[i][j][k] += dO[(i * d_v + d) * h + k] * V[(j * d_v + d) * h + k];
            dV[j][d][k] += W[i][j][k] * dO[(i * d_v + d) * h + k];
          }
          D += W[i][j][k] * dW[i][j][k];
        }
        for (int j = 0; j < m; ++j) {
          const double dJ = W[i][j][k] * (dW[i][j][k] - D);
          for (int d = 0; d < d_k; ++d) {
            dQ[i][d][k] += scale * dJ * K[(j * d_k + d) * h + k];
            dK[j][d][k] += scale * dJ * Q[(i * d_k + d) * h + k];
          }
        }
      }
  }
};

double LargestDifference(const double* a, const Tensor& b) {
  double largest = 0;
  for (int64_t i = 0; i < b.num_elements(); ++i) largest = std::max(largest, std::abs(a[i] - b.data<double>()[i]));
  return largest;
}

void Compare(const char* name, const double* by_hand, const Tensor& of_library) {
  std::printf("  %-3s %s\n", name, LargestDifference(by_hand, of_library) < 1e-13 ? "equal" : "DIFFERENT");
}

}  // namespace

int main() {
  const Variable Q(Random("Q", {n, d_k, h}), Variable::RequiresGrad::kYes);
  const Variable K(Random("K", {m, d_k, h}), Variable::RequiresGrad::kYes);
  const Variable V(Random("V", {m, d_v, h}), Variable::RequiresGrad::kYes);
  const Tensor dO = Random("dO", {n, d_v, h});

  const Variable J = Scale(Einsum("J[n, m, h] = einsum(Q[n, d_k, h], K[m, d_k, h])", {Q, K}), scale);
  const Variable W = Softmax(J, 1);
  const Variable O = Einsum("O[n, d_v, h] = einsum(W[n, m, h], V[m, d_v, h])", {W, V});
  Backward(O, dO);

  Loops loops;
  loops.Forward(Q.value().data<double>(), K.value().data<double>(), V.value().data<double>());
  loops.Backward(Q.value().data<double>(), K.value().data<double>(), V.value().data<double>(), dO.data<double>());

  std::printf("weights of head 0, a row for each query\n");
  for (int i = 0; i < n; ++i) {
    std::printf("  n=%d ", i);
    for (int j = 0; j < m; ++j) std::printf(" %.3f", loops.W[i][j][0]);
    std::printf("\n");
  }
  std::printf("loops and einsum, to rounding\n");
  Compare("O", &loops.O[0][0][0], O.value());
  Compare("dQ", &loops.dQ[0][0][0], Q.grad());
  Compare("dK", &loops.dK[0][0][0], K.grad());
  Compare("dV", &loops.dV[0][0][0], V.grad());
  std::printf("the plan of a line\n  %s",
              DescribeEinsum("J[n, m, h] = einsum(Q[n, d_k, h], K[m, d_k, h])", {Q.shape(), K.shape()}).c_str());
}
