#include "crosstalk/kernels/gemm/blocked.h"

#include "crosstalk/kernels/gemm/products.h"
#include "crosstalk/kernels/simd.h"

namespace crosstalk::kernels {
namespace {

// C ← beta · C + bias, where beta = 0 overwrites: a product of nothing.
template <typename T>
void ScaleResult(const GemmArguments<T>& g) {
  for (int64_t i = 0; i < g.m; ++i) {
    T* row = g.c + i * g.ldc;
    for (int64_t j = 0; j < g.n; ++j) {
      row[j] = g.beta == T(0) ? T(0) : g.beta * row[j];
      if (g.bias != nullptr) row[j] += g.bias[j];
    }
  }
}

}  // namespace

template <typename T>
void BlockedGemm(const GemmArguments<T>& g) {
  if (g.k == 0 || g.alpha == T(0)) {
    ScaleResult(g);
  } else {
    SettleSimdTarget();
    ProductOfElements(g);
  }
}

template <typename T>
GemmWorkspace BlockedGemmWorkspace(const GemmArguments<T>& g) {
  if (g.k == 0 || g.alpha == T(0)) return {};
  SettleSimdTarget();
  return WorkspaceOfElements(g);
}

template void BlockedGemm<float>(const GemmArguments<float>&);
template void BlockedGemm<double>(const GemmArguments<double>&);
template GemmWorkspace BlockedGemmWorkspace<float>(const GemmArguments<float>&);
template GemmWorkspace BlockedGemmWorkspace<double>(const GemmArguments<double>&);

}  // namespace crosstalk::kernels
