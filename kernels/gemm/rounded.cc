// Products of operands that are rounded to bfloat16: the blocked product over pairs of terms, on the unit in use, or
// for very few rows one that reads B as it lies. A sum has one order for any number of rows, as in float.
#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/gemm/blocked.h"
#include "crosstalk/kernels/gemm/products.h"

namespace crosstalk::kernels {
namespace {

struct UnitProducts {
  void (*multiply)(const GemmArguments<float>& g);
  GemmWorkspace (*workspace)(const GemmArguments<float>& g);
};

UnitProducts ProductsInUse() {
  const BFloat16Unit unit = BFloat16UnitInUse();  // settles the SIMD target, too
  if (unit == BFloat16Unit::kTiles) return {ProductOfTiles, WorkspaceOfTiles};
  if (unit == BFloat16Unit::kDotProduct) return {ProductOfDotProducts, WorkspaceOfDotProducts};
  return {ProductOfWidened, WorkspaceOfWidened};
}

}  // namespace

void RoundedGemm(const GemmArguments<float>& g) { ProductsInUse().multiply(g); }

GemmWorkspace RoundedGemmWorkspace(const GemmArguments<float>& g) { return ProductsInUse().workspace(g); }

}  // namespace crosstalk::kernels
