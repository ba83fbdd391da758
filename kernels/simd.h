// Which SIMD instruction set the kernels run on: chosen once for this CPU, at run time. The bits of results depend on
// it (vector width decides the order of sums), so every run records its name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crosstalk::kernels {

// The one in use ("AVX3", "AVX2", "SSE4", …).
std::string SimdTargetName();

// All that this CPU has and this program was compiled for, best first.
std::vector<std::string> SupportedSimdTargets();

// Runs on `name`, one of SupportedSimdTargets(), from now on; an empty name gives the choice back to the CPU. For
// tests and for repeating a smaller machine's bits; not while kernels run. Throws a usage error for another name.
void RestrictSimdTarget(std::string_view name);

}  // namespace crosstalk::kernels
