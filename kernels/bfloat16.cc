#include "crosstalk/kernels/bfloat16.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>

#define HWY_TARGET_INCLUDE "crosstalk/kernels/bfloat16.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/bfloat16-inl.h"
#include "crosstalk/kernels/gemm/amx.h"
#include "crosstalk/kernels/simd-inl.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

CROSSTALK_BEGIN_TARGET

template <BFloat16Unit kUnit>
void RoundAll(int64_t count, const float* x, uint16_t* y) {
  RoundRow<kUnit>(count, x, y);
}

void WidenAll(int64_t count, const uint16_t* x, float* y) {
  const Tag<float> d;
  ForVectors(
      d, count, [&](int64_t i) HWY_ATTR { hn::StoreU(LoadHalvesWidened(x + i, count - i), d, y + i); },
      [&](int64_t i, size_t n) HWY_ATTR { StoreFirst(LoadHalvesWidened(x + i, count - i), d, y + i, n); });
}

CROSSTALK_END_TARGET

CROSSTALK_TARGETS(RoundWidened, RoundAll<BFloat16Unit::kWidened>)
CROSSTALK_TARGETS(RoundByInstruction, RoundAll<kDotProductHere>)
CROSSTALK_TARGETS(WidenOnTarget, WidenAll)
CROSSTALK_TARGETS(TargetHasDotProduct, kHasDotProduct)

#if HWY_ONCE
namespace crosstalk::kernels {
namespace {

constexpr char kVariable[] = "CROSSTALK_BFLOAT16";
constexpr char kWidenedName[] = "widened", kDotProductName[] = "dot-product", kTilesName[] = "tiles";

// The requested unit: the variable, or RestrictBFloat16Unit. Empty: the best.
std::mutex choice_mutex;
std::string choice;
std::atomic<bool> chosen = false;

bool HasDotProduct() {
#if defined(__x86_64__)
  return TargetHasDotProduct() && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

// Tiles belong to AVX3: who asks for another target asks for its instructions.
bool TargetHasTiles() { return TargetHasDotProduct() && HasTiles(); }

void Choose(std::string_view source, std::string_view name) {
  std::vector<std::string> all = SupportedBFloat16Units();
  all.push_back(kTilesName);
  if (!name.empty() && std::find(all.begin(), all.end(), name) == all.end()) {
    FailField(ErrorKind::kUsage, source, Quoted(name),
              " does not multiply bfloat16 on this CPU and SIMD target; there is ", Join(all, ", "));
  }
  choice = name;
  chosen = true;
}

}  // namespace

void RoundToBFloat16(int64_t count, const float* x, uint16_t* y) {
  (HasDotProduct() ? RoundByInstruction() : RoundWidened())(count, x, y);
}

void WidenBFloat16(int64_t count, const uint16_t* x, float* y) { WidenOnTarget()(count, x, y); }

BFloat16Unit BFloat16UnitInUse() {
  const BFloat16Unit of_pairs = BFloat16PairUnitInUse();
  return choice == kTilesName || (choice.empty() && TargetHasTiles()) ? BFloat16Unit::kTiles : of_pairs;
}

BFloat16Unit BFloat16PairUnitInUse() {
  if (!chosen) {
    const std::lock_guard<std::mutex> lock(choice_mutex);
    if (!chosen) {
      const char* name = std::getenv(kVariable);
      Choose(kVariable, name == nullptr ? "" : name);
    }
  }
  // The SIMD target may have changed since.
  return choice != kWidenedName && HasDotProduct() ? BFloat16Unit::kDotProduct : BFloat16Unit::kWidened;
}

std::string BFloat16UnitName() {
  const BFloat16Unit unit = BFloat16UnitInUse();
  return unit == BFloat16Unit::kTiles ? kTilesName : unit == BFloat16Unit::kDotProduct ? kDotProductName : kWidenedName;
}

bool BFloat16UnitIsHardware() {
  const BFloat16Unit unit = BFloat16UnitInUse();
  return unit == BFloat16Unit::kTiles ? TargetHasTiles() : unit == BFloat16Unit::kDotProduct;
}

std::vector<std::string> SupportedBFloat16Units() {
  std::vector<std::string> names;
  if (HasDotProduct()) names.push_back(kDotProductName);
  names.push_back(kWidenedName);
  return names;
}

void RestrictBFloat16Unit(std::string_view name) {
  const std::lock_guard<std::mutex> lock(choice_mutex);
  Choose("bfloat16 unit", name);
}

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
