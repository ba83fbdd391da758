// Which SIMD instruction set the kernels run on: chosen once for this CPU, at run time. All that fuse multiply-adds
// give the same bits, as every sum has the order of 64-byte vectors (simd-inl.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crosstalk::kernels {

// The one in use ("AVX3", "AVX2", "SSE4", …).
std::string SimdTargetName();

// What its bits are: "fma" on every target that rounds a·b + c once, the target's own name on one that rounds twice.
std::string SimdBits();

// All that this CPU has and this program was compiled for, best first.
std::vector<std::string> SupportedSimdTargets();

// Runs on `name`, one of SupportedSimdTargets(), from now on; an empty name gives the choice back to the CPU. Not
// while kernels run. Throws a usage error for another name.
void RestrictSimdTarget(std::string_view name);

}  // namespace crosstalk::kernels
