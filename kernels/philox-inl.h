// Philox 4x32-10 (Salmon et al. 2011) on vectors: the words of RandomKey::Block (runtime/random.h), bit for bit, one
// block to a 64-bit lane. Compiled once per target.
#if defined(CROSSTALK_KERNELS_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_KERNELS_PHILOX_INL_H_
#undef CROSSTALK_KERNELS_PHILOX_INL_H_
#else
#define CROSSTALK_KERNELS_PHILOX_INL_H_
#endif

#include <cstdint>

#include "crosstalk/kernels/simd-inl.h"
#include "crosstalk/runtime/random.h"

CROSSTALK_BEGIN_TARGET

inline constexpr int kPhiloxBlocks = kLanesOf<uint64_t>;  // in one call: four words each

// words[4 · kPhiloxBlocks]: those of blocks `block` … block + kPhiloxBlocks - 1. `words` is aligned to a vector.
HWY_INLINE void PhiloxWords(const RandomKey& key, uint64_t block, uint32_t* words) {
  const Tag<uint64_t> d64;
  const hn::Repartition<uint32_t, decltype(d64)> d32;
  const auto low = hn::Set(d64, 0xFFFFFFFFull);
  const auto multiplier0 = hn::BitCast(d32, hn::Set(d64, 0xD2511F53ull));
  const auto multiplier1 = hn::BitCast(d32, hn::Set(d64, 0xCD9E8D57ull));
  const auto index = hn::Add(hn::Set(d64, block), hn::Iota(d64, 0));
  // A lane's upper half is whatever the last step left there: MulEven reads the lower one.
  auto c0 = index;
  auto c1 = hn::ShiftRight<32>(index);
  auto c2 = hn::Set(d64, uint64_t{key.step});
  auto c3 = hn::Set(d64, uint64_t{key.stream});
  uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const auto product0 = hn::MulEven(hn::BitCast(d32, c0), multiplier0);
    const auto product1 = hn::MulEven(hn::BitCast(d32, c2), multiplier1);
    c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), c1), hn::Set(d64, uint64_t{k0}));
    c1 = product1;
    c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), c3), hn::Set(d64, uint64_t{k1}));
    c3 = product0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  hn::StoreInterleaved2(hn::Or(hn::And(c0, low), hn::ShiftLeft<32>(c1)),
                        hn::Or(hn::And(c2, low), hn::ShiftLeft<32>(c3)), d64, reinterpret_cast<uint64_t*>(words));
}

CROSSTALK_END_TARGET

#endif
