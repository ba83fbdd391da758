// Products of operands that are rounded to bfloat16: the blocked product over pairs of terms, on the unit in use, or
// for very few rows one that reads B as it lies. A sum has one order for any number of rows, as in float.
#include <memory>
#include <vector>

#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/gemm/blocked.h"
#include "crosstalk/kernels/gemm/pack_buffer.h"
#include "crosstalk/kernels/gemm/products.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk::kernels {
namespace {

struct UnitProducts {
  void (*multiply)(const GemmArguments<float>& g);
  std::vector<int64_t> (*buffers)(const GemmArguments<float>& g, int64_t threads);
};

UnitProducts ProductsInUse() {
  const BFloat16Unit unit = BFloat16UnitInUse();  // settles the SIMD target, too
  if (unit == BFloat16Unit::kTiles) return {ProductOfTiles, BuffersOfTiles};
  if (unit == BFloat16Unit::kDotProduct) return {ProductOfDotProducts, BuffersOfDotProducts};
  return {ProductOfWidened, BuffersOfWidened};
}

}  // namespace

void RoundedGemm(const GemmArguments<float>& g) { ProductsInUse().multiply(g); }

void AllocateAsRoundedGemm(const GemmArguments<float>& g, int64_t threads, int64_t products) {
  const std::vector<int64_t> sizes = ProductsInUse().buffers(g, threads);
  std::vector<std::shared_ptr<Storage>> buffers;
  for (int64_t i = 0; i < products; ++i) {
    for (const int64_t elements : sizes) buffers.push_back(PackBuffer<uint32_t>::FromPool(elements));
  }
}

}  // namespace crosstalk::kernels
