// Philox on vectors and the attention's dropout factors where the block number passes 2^32: no array that fits into
// memory has so many elements, so the functions inside of the kernels are called themselves.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/philox_test.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/attention/elements-inl.h"
#include "crosstalk/kernels/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

// words[4 · blocks] from `first` on, as many blocks as one call gives.
int CallPhiloxWords(const RandomKey& key, uint64_t first, uint32_t* words) {
  HWY_ALIGN uint32_t aligned[4 * kPhiloxBlocks];
  PhiloxWords(key, first, aligned);
  std::copy_n(aligned, 4 * kPhiloxBlocks, words);
  return kPhiloxBlocks;
}

void CallDropoutFactors(const RandomKey& key, double rate, uint64_t first, float* factors) {
  HWY_ALIGN float aligned[kChunk];
  DropoutFactors(key, rate, first, aligned);
  std::copy_n(aligned, kChunk, factors);
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <array>

#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {
namespace philox_test {

HWY_EXPORT(CallPhiloxWords);
HWY_EXPORT(CallDropoutFactors);

CROSSTALK_KERNEL_TEST(PhiloxTest);

const RandomKey kKey{0x123456789abcdef0, StreamId("site"), 0xfedcba98};

TEST_P(PhiloxTest, WordsAreTheKeysBlocksOnBothSidesOfEveryPowerOfTwo) {
  for (int bit = 0; bit < 63; ++bit) {
    for (int64_t before = -9; before <= 1; ++before) {
      const uint64_t first = (uint64_t{1} << bit) + static_cast<uint64_t>(before);
      if (bit < 4 && before < 0) continue;
      std::array<uint32_t, 64> words{};
      const int blocks = HWY_DYNAMIC_DISPATCH(CallPhiloxWords)(kKey, first, words.data());
      for (int i = 0; i < blocks; ++i) {
        const auto expected = kKey.Block(first + static_cast<uint64_t>(i));
        for (int w = 0; w < 4; ++w) ASSERT_EQ(words[4 * i + w], expected[w]) << first << " + " << i << ", word " << w;
      }
    }
  }
}

TEST_P(PhiloxTest, DropoutFactorsAreThoseOfUniformWhereverARowBegins) {
  for (const uint64_t start : {uint64_t{0}, uint64_t{400}, (uint64_t{1} << 34) - 36, (uint64_t{7} << 40) - 4}) {
    for (const double rate : {0.1, 0.5, 1 - 1e-7}) {
      for (uint64_t first = start; first < start + 40; ++first) {
        std::array<float, kChunk> factors;
        HWY_DYNAMIC_DISPATCH(CallDropoutFactors)(kKey, rate, first, factors.data());
        for (uint64_t j = 0; j < kChunk; ++j) {
          const float kept = static_cast<float>(1 / (1 - rate));
          ASSERT_EQ(factors[j], Uniform(kKey, first + j) < rate ? 0.0f : kept) << first << " + " << j;
        }
      }
    }
  }
}

}  // namespace philox_test
}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
