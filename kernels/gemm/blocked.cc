#include "crosstalk/kernels/gemm/blocked.h"

#include <memory>
#include <vector>

#include "crosstalk/kernels/gemm/pack_buffer.h"
#include "crosstalk/kernels/gemm/products.h"
#include "crosstalk/kernels/simd.h"
#include "crosstalk/runtime/storage.h"

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
void AllocateAsBlockedGemm(const GemmArguments<T>& g, int64_t threads, int64_t products) {
  if (g.k == 0 || g.alpha == T(0)) return;
  std::vector<std::shared_ptr<Storage>> buffers;
  SettleSimdTarget();
  const std::vector<int64_t> sizes = BuffersOfElements(g, threads);
  for (int64_t i = 0; i < products; ++i) {
    for (const int64_t elements : sizes) buffers.push_back(PackBuffer<T>::FromPool(elements));
  }
}

template void BlockedGemm<float>(const GemmArguments<float>&);
template void BlockedGemm<double>(const GemmArguments<double>&);
template void AllocateAsBlockedGemm<float>(const GemmArguments<float>&, int64_t, int64_t);
template void AllocateAsBlockedGemm<double>(const GemmArguments<double>&, int64_t, int64_t);

}  // namespace crosstalk::kernels
