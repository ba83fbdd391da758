#include "crosstalk/kernels/simd.h"

#include <atomic>
#include <cstdlib>
#include <mutex>

#define HWY_TARGET_INCLUDE "crosstalk/kernels/simd.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/targets.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

CROSSTALK_TARGETS(ThisTarget, HWY_TARGET)

#if HWY_ONCE
namespace crosstalk::kernels {
namespace {

constexpr char kVariable[] = "CROSSTALK_SIMD";

std::atomic<bool> settled = false;

// Better ones first: their bits are lower. Highway's own list shrinks once it is restricted. ARM has one, NEON, which
// is the compiler's baseline; Highway 1.0 would miss it on processors without instructions for cryptography.
constexpr bool kHasChoice = (HWY_TARGETS & (HWY_TARGETS - 1)) != 0;
const std::vector<int64_t>& AllTargets() {
  static const std::vector<int64_t> all =
      kHasChoice ? hwy::SupportedAndGeneratedTargets() : std::vector<int64_t>{HWY_STATIC_TARGET};
  return all;
}

// Highway 1.2 calls the baseline of ARM NEON_WITHOUT_AES.
std::string NameOf(int64_t target) { return HWY_ARCH_ARM_A64 ? "NEON" : hwy::TargetName(target); }

int64_t TargetOf(std::string_view source, std::string_view name) {
  const auto upper = [](std::string_view text) {
    std::string result(text);
    for (char& c : result) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    return result;
  };
  for (const int64_t target : AllTargets()) {
    if (upper(name) == upper(NameOf(target))) return target;
  }
  FailField(ErrorKind::kUsage, source, Quoted(name), " is not a SIMD target of this CPU and this program, which have ",
            Join(SupportedSimdTargets(), ", "));
}

void Choose(int64_t target) {  // 0: the best
  if (AllTargets().empty()) Fail(ErrorKind::kFailure, "this CPU has no AVX2, which this program needs at least");
  if constexpr (kHasChoice) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  settled = true;
}

}  // namespace

std::string SimdTargetName() { return NameOf(ThisTarget()); }

std::vector<std::string> SupportedSimdTargets() {
  std::vector<std::string> names;
  for (const int64_t target : AllTargets()) names.push_back(NameOf(target));
  return names;
}

void RestrictSimdTarget(std::string_view name) { Choose(name.empty() ? 0 : TargetOf("simd", name)); }

void SettleSimdTarget() {
  if (settled) return;
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (settled) return;
  const char* name = std::getenv(kVariable);
  Choose(name == nullptr || *name == '\0' ? 0 : TargetOf(kVariable, name));
}

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
