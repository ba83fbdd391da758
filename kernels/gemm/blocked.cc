#include "crosstalk/kernels/gemm/blocked.h"

#include <memory>
#include <vector>

#include "crosstalk/kernels/gemm/pack_buffer.h"
#include "crosstalk/runtime/storage.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/gemm/blocked.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/dispatch-inl.h"
#include "crosstalk/kernels/gemm/blocked-inl.h"
#include "crosstalk/kernels/gemm/dots-inl.h"
#include "crosstalk/kernels/gemm/pack-inl.h"
#include "crosstalk/kernels/gemm/thin-inl.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

template <typename T>
void ElementsProduct(const GemmArguments<T>& g) {
  if (IsThin(g)) {
    ThinProduct(g);
  } else if (IsDots(g)) {
    DotsProduct<Elements<T>>(g);
  } else {
    BlockedProduct<Elements<T>>(g);
  }
}

template <typename T>
std::vector<int64_t> ElementsBuffers(const GemmArguments<T>& g, int64_t threads) {
  return IsThin(g) || IsDots(g) ? std::vector<int64_t>() : BufferSizes<Elements<T>>(g, threads);
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

CROSSTALK_DISPATCH(ElementsProduct)
CROSSTALK_DISPATCH(ElementsBuffers)

#if HWY_ONCE
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
    ElementsProductOnTarget<T>()(g);
  }
}

template <typename T>
void AllocateAsBlockedGemm(const GemmArguments<T>& g, int64_t threads, int64_t products) {
  if (g.k == 0 || g.alpha == T(0)) return;
  std::vector<std::shared_ptr<Storage>> buffers;
  const std::vector<int64_t> sizes = ElementsBuffersOnTarget<T>()(g, threads);
  for (int64_t i = 0; i < products; ++i) {
    for (const int64_t elements : sizes) buffers.push_back(PackBuffer<T>::FromPool(elements));
  }
}

template void BlockedGemm<float>(const GemmArguments<float>&);
template void BlockedGemm<double>(const GemmArguments<double>&);
template void AllocateAsBlockedGemm<float>(const GemmArguments<float>&, int64_t, int64_t);
template void AllocateAsBlockedGemm<double>(const GemmArguments<double>&, int64_t, int64_t);

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
