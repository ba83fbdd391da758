#include "crosstalk/kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/simd.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/runtime/check.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

int64_t ThisTarget() { return HWY_TARGET; }
bool FusesMultiplyAdd() { return HWY_NATIVE_FMA != 0; }

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crosstalk::kernels {

HWY_EXPORT(ThisTarget);
HWY_EXPORT(FusesMultiplyAdd);

std::string SimdTargetName() { return hwy::TargetName(HWY_DYNAMIC_DISPATCH(ThisTarget)()); }

std::string SimdBits() { return HWY_DYNAMIC_DISPATCH(FusesMultiplyAdd)() ? "fma" : SimdTargetName(); }

std::vector<std::string> SupportedSimdTargets() {
  std::vector<std::string> names;
  // Lower bits are better targets.
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) names.push_back(hwy::TargetName(target));
  return names;
}

void RestrictSimdTarget(std::string_view name) {
  hwy::SetSupportedTargetsForTest(0);
  if (!name.empty()) {
    int64_t chosen = 0;
    std::string known;
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      if (name == hwy::TargetName(target)) chosen = target;
      known += (known.empty() ? "" : ", ") + std::string(hwy::TargetName(target));
    }
    if (chosen == 0) {
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      Fail(ErrorKind::kUsage, "SIMD target \"", name, "\" is not one that this CPU and this program have: ", known);
    }
    hwy::SetSupportedTargetsForTest(chosen);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
