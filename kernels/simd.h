// Which SIMD instruction set the kernels run on: chosen once, at run time, by the environment variable CROSSTALK_SIMD
// or for this CPU. Its width changes no bit, as every sum has the order of 64-byte vectors (simd-inl.h); whether it
// fuses multiply-adds does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crosstalk::kernels {

// The one in use ("AVX3", "AVX2", "SSE4", …).
std::string SimdTargetName();

// Which bits it gives: "fma" on every target that rounds a·b + c once, "no-fma" on those that round it twice.
std::string SimdBits();

// All that this CPU has and this program was compiled for, best first.
std::vector<std::string> SupportedSimdTargets();

// Runs on `name`, one of SupportedSimdTargets() in any case, from now on; an empty name gives the choice back to the
// CPU. Not while kernels run. Throws a usage error of the field "simd" for another name.
void RestrictSimdTarget(std::string_view name);

// Before the first kernel: restricts to CROSSTALK_SIMD, if it is set and nobody has restricted the target yet. Throws a
// usage error if it names none. Functions dispatched with CROSSTALK_DISPATCH call it.
void SettleSimdTarget();

}  // namespace crosstalk::kernels
