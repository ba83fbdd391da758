// bfloat16, the upper half of a float: 8 bits of exponent, 7 of mantissa. What products in bfloat16 round their
// operands to, and what multiplies them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace crosstalk::kernels {

// y[i] = x[i] rounded to the nearest bfloat16, ties to even. What lies below 2^-126 becomes a zero of
// its sign, as the processors' instructions have it; what lies beyond the largest finite bfloat16 infinity. A NaN stays
// one. All targets give the same bits.
void RoundToBFloat16(int64_t count, const float* x, uint16_t* y);
// The floats of the same values.
void WidenBFloat16(int64_t count, const uint16_t* x, float* y);

// How sums of products in bfloat16 are formed. Two consecutive terms of a sum at a time, the second before the first,
// each by a multiply-add in float:
//
//   sum ← fma(a[k], b[k], fma(a[k + 1], b[k + 1], sum)),   k even
//
// where a result below 2^-126 is 0 (FlushSubnormals): what the instruction VDPBF16PS computes. Without multiply-adds
// (SSE) each of them rounds twice.
//
// Products in tiles have another order, up to 32 terms at a time (kernels/gemm/amx.h), and so other bits.
enum class BFloat16Unit {
  kWidened,     // in float, by the SIMD target's own multiply-adds
  kDotProduct,  // VDPBF16PS of 64-byte vectors: AVX512_BF16
  kTiles,  // TDPBF16PS, of matrix products and attention: AMX; in software where the processor has none, which is slow
};

// The one in use: the environment variable CROSSTALK_BFLOAT16's ("widened", "dot-product", "tiles") or the best of this
// CPU and the SIMD target in use. Throws a usage error where the variable names another.
BFloat16Unit BFloat16UnitInUse();
// The same for what tiles do not multiply: kWidened or kDotProduct.
BFloat16Unit BFloat16PairUnitInUse();
std::string BFloat16UnitName();
// Whether the CPU has an instruction for the one in use; else it is the same in software, slower.
bool BFloat16UnitIsHardware();
// All that this CPU and the SIMD target in use have, best first, of those that form sums by pairs.
std::vector<std::string> SupportedBFloat16Units();
// Computes with `name`, one of those or "tiles", from now on; an empty name gives the choice back. No kernel may
// run meanwhile.
void RestrictBFloat16Unit(std::string_view name);

}  // namespace crosstalk::kernels
