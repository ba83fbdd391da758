// Pairs of bfloat16 and their products. Compiled once per target.
//
// A lane of 32 bits holds two consecutive terms' operands, k in its lower half and k + 1 in its upper half: what
// VDPBF16PS multiplies. A sum over an odd number of terms has a zero after the last.
#if defined(CROSSTALK_KERNELS_BFLOAT16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_KERNELS_BFLOAT16_INL_H_
#undef CROSSTALK_KERNELS_BFLOAT16_INL_H_
#else
#define CROSSTALK_KERNELS_BFLOAT16_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/simd-inl.h"

CROSSTALK_BEGIN_TARGET

using FloatVector = hn::Vec<Tag<float>>;
using PairVector = hn::Vec<Tag<uint32_t>>;
using HalfTag = hn::Rebind<uint16_t, Tag<float>>;

// The bits of the nearest bfloat16 in the upper half of each lane; the lower half is 0.
HWY_INLINE PairVector RoundedUpperHalf(FloatVector x) {
  const Tag<float> d;
  const Tag<uint32_t> du;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
  const auto sign = hn::And(bits, hn::Set(du, 0x80000000u));
  const auto tiny = hn::Lt(hn::Abs(x), hn::Set(d, 0x1p-126f));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x00400000u));
  const auto finite = hn::IfThenElse(hn::RebindMask(du, tiny), sign, rounded);
  return hn::And(hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), quiet, finite), hn::Set(du, 0xffff0000u));
}

// The float nearest among the bfloat16.
HWY_INLINE FloatVector RoundedToBFloat16(FloatVector x) { return hn::BitCast(Tag<float>(), RoundedUpperHalf(x)); }

// The halves of each pair as floats.
HWY_INLINE FloatVector FirstOfPairs(PairVector p) { return hn::BitCast(Tag<float>(), hn::ShiftLeft<16>(p)); }
HWY_INLINE FloatVector SecondOfPairs(PairVector p) {
  return hn::BitCast(Tag<float>(), hn::And(p, hn::Set(Tag<uint32_t>(), 0xffff0000u)));
}

// The first `count` of x, each in the lower half of a lane; zeros beyond.
HWY_INLINE PairVector LoadHalves(const uint16_t* x, int64_t count) {
  const Tag<uint32_t> du;
  const HalfTag dh;
  if (count >= kLanesOf<float>) return hn::PromoteTo(du, hn::LoadU(dh, x));
  HWY_ALIGN uint16_t last[HWY_MAX_BYTES / sizeof(uint16_t)] = {};
  if (count > 0) std::memcpy(last, x, static_cast<size_t>(count) * sizeof(uint16_t));
  return hn::PromoteTo(du, hn::LoadU(dh, last));
}
// The same as floats.
HWY_INLINE FloatVector LoadHalvesWidened(const uint16_t* x, int64_t count) {
  return FirstOfPairs(LoadHalves(x, count));
}

template <BFloat16Unit kUnit>
struct Pairs;

template <>
struct Pairs<BFloat16Unit::kWidened> {
  // Lane l: the pair of first[l] and second[l].
  static HWY_INLINE PairVector Round(FloatVector first, FloatVector second) {
    return hn::Or(hn::ShiftRight<16>(RoundedUpperHalf(first)), RoundedUpperHalf(second));
  }
  // The rounded numbers alone.
  static HWY_INLINE hn::Vec<HalfTag> RoundHalves(FloatVector x) {
    return hn::TruncateTo(HalfTag(), hn::ShiftRight<16>(RoundedUpperHalf(x)));
  }
  // sum + the two products of each lane.
  static HWY_INLINE FloatVector MulAdd(PairVector a, PairVector b, FloatVector sum) {
    return hn::MulAdd(FirstOfPairs(a), FirstOfPairs(b), hn::MulAdd(SecondOfPairs(a), SecondOfPairs(b), sum));
  }

  // The same in two passes over many sums, the second terms before the first: half as many registers are needed for
  // the operands.
  static constexpr int kPasses = 2;
  using Part = FloatVector;
  static HWY_INLINE Part PartOf(int pass, PairVector p) { return pass == 0 ? SecondOfPairs(p) : FirstOfPairs(p); }
  static HWY_INLINE FloatVector MulAddParts(Part a, Part b, FloatVector sum) { return hn::MulAdd(a, b, sum); }
};

// Whether the target has vectors that VDPBF16PS takes; that the CPU has the instruction is BFloat16UnitInUse's to say.
#if HWY_TARGET == HWY_AVX3
inline constexpr bool kHasDotProduct = true;

// By their names and not by intrinsics, so that one target serves CPUs with and without them.
template <>
struct Pairs<BFloat16Unit::kDotProduct> {
  static HWY_INLINE PairVector Round(FloatVector first, FloatVector second) {
    __m512i halves;  // those of `first`, then those of `second`
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(halves) : "v"(second.raw), "v"(first.raw));
    const __m512i order = _mm512_set_epi32(0x001f000f, 0x001e000e, 0x001d000d, 0x001c000c, 0x001b000b, 0x001a000a,
                                           0x00190009, 0x00180008, 0x00170007, 0x00160006, 0x00150005, 0x00140004,
                                           0x00130003, 0x00120002, 0x00110001, 0x00100000);
    return PairVector{_mm512_permutexvar_epi16(order, halves)};
  }
  static HWY_INLINE hn::Vec<HalfTag> RoundHalves(FloatVector x) {
    hn::Vec<HalfTag> halves;
    asm("vcvtneps2bf16 %1, %0" : "=v"(halves.raw) : "v"(x.raw));
    return halves;
  }
  static HWY_INLINE FloatVector MulAdd(PairVector a, PairVector b, FloatVector sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
    return sum;
  }

  static constexpr int kPasses = 1;
  using Part = PairVector;
  static HWY_INLINE Part PartOf(int /*pass*/, PairVector p) { return p; }
  static HWY_INLINE FloatVector MulAddParts(Part a, Part b, FloatVector sum) { return MulAdd(a, b, sum); }
};
#else
inline constexpr bool kHasDotProduct = false;
#endif
// The unit of code for kDotProduct, which on targets without it is never run.
inline constexpr BFloat16Unit kDotProductHere = kHasDotProduct ? BFloat16Unit::kDotProduct : BFloat16Unit::kWidened;

// halves[i] = row[i] rounded. Writes nothing else.
template <BFloat16Unit kUnit>
HWY_INLINE void RoundRow(int64_t count, const float* row, uint16_t* halves) {
  const Tag<float> d;
  const HalfTag dh;
  ForVectors(
      d, count,
      [&](int64_t i) HWY_ATTR { hn::StoreU(Pairs<kUnit>::RoundHalves(hn::LoadU(d, row + i)), dh, halves + i); },
      [&](int64_t i, size_t n) HWY_ATTR {
        HWY_ALIGN uint16_t last[HWY_MAX_BYTES / sizeof(uint16_t)];
        hn::StoreU(Pairs<kUnit>::RoundHalves(LoadFirst(d, row + i, n)), dh, last);
        std::memcpy(halves + i, last, n * sizeof(uint16_t));
      });
}

CROSSTALK_END_TARGET

#endif
