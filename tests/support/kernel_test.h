// The frame of the kernel tests: every SIMD target that this CPU has, arrays that start off alignment and notice a
// write beyond their ends, and one call repeated on several numbers of threads.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/kernels/simd.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/random.h"
#include "gtest/gtest.h"
#include "tests/support/close.h"

namespace crosstalk::kernels {

using testing::AllClose;
using testing::CloseToLargest;
using testing::SameBits;

// TEST_P(SoftmaxTest, …) runs once for each target: CROSSTALK_KERNEL_TEST(SoftmaxTest).
class KernelTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { RestrictSimdTarget(GetParam()); }
  void TearDown() override { RestrictSimdTarget(""); }

 private:
  const ThreadsScope two_threads_{2};
};

#define CROSSTALK_KERNEL_TEST(Suite) \
  class Suite : public ::crosstalk::kernels::KernelTest {}; \
  INSTANTIATE_TEST_SUITE_P(AllTargets, Suite, ::testing::ValuesIn(::crosstalk::kernels::SupportedSimdTargets()), \
                           [](const auto& info) { return info.param; })

// TEST_P(Suite, Name) of Check<float>() and Check<double>().
#define CROSSTALK_FLOATS_TEST(Suite, Name, Check) \
  TEST_P(Suite, Name) { \
    Check<float>(); \
    Check<double>(); \
  }

// Unit roundoff of T.
template <typename T>
inline constexpr double kRoundoff = static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;

// Whether this program is emulated (tests/run.sh), and takes twenty times as long: tests of all sizes then take some of
// them, and tests of large ones smaller ones.
inline bool Emulated() { return std::getenv("CROSSTALK_EMULATOR") != nullptr; }
template <typename T>
std::vector<T> SomeOf(const std::vector<T>& all) {
  std::vector<T> some;
  for (size_t i = 0; i < all.size(); i += Emulated() ? 3 : 1) some.push_back(all[i]);
  return some;
}

// 0 … 4 · 16 + 3: every remainder of a vector of up to 16 lanes, with up to four vectors before it.
inline constexpr int64_t kMaxLength = 67;

// `count` elements that begin one element off alignment, between guards.
template <typename T>
class Guarded {
 public:
  explicit Guarded(int64_t count) : count_(count), all_(count + 2 * kMargin, kGuard) {}
  Guarded(const std::vector<T>& values) : Guarded(static_cast<int64_t>(values.size())) {
    std::copy(values.begin(), values.end(), data());
  }

  T* data() { return all_.data() + kMargin; }
  std::vector<T> values() const { return {all_.begin() + kMargin, all_.begin() + kMargin + count_}; }
  bool GuardsIntact() const {
    for (int64_t i = 0; i < kMargin; ++i) {
      if (all_[i] != kGuard || all_[kMargin + count_ + i] != kGuard) return false;
    }
    return true;
  }

 private:
  static constexpr int64_t kMargin = 17;
  static constexpr T kGuard = T(113);
  int64_t count_;
  std::vector<T> all_;
};

// Numbers of mean `shift` and standard deviation `scale` from a name, at most 3.5 deviations away: the sum of four
// uniform numbers, much quicker than a normal one.
template <typename T>
std::vector<T> RandomValues(int64_t count, std::string_view name, double scale = 1, double shift = 0) {
  const RandomKey key{7, StreamId(name), static_cast<uint32_t>(count)};
  std::vector<T> values(count);
  for (int64_t i = 0; i < count; ++i) {
    double sum = -2;
    for (const uint32_t word : key.Block(static_cast<uint64_t>(i))) sum += word * 0x1p-32;
    values[i] = static_cast<T>(shift + scale * 1.7320508 * sum);
  }
  return values;
}

template <typename T>
std::vector<double> ToDouble(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

// compute() → std::vector<T>: the same bits on 1, 2, 3, 5 and 8 threads.
template <typename F>
void ExpectSameBitsOnAnyThreads(const F& compute) {
  const ThreadsScope one_thread(1);
  const auto expected = compute();
  for (const int threads : {2, 3, 5, 8}) {
    const ThreadsScope scope(threads);
    EXPECT_TRUE(SameBits(compute(), expected)) << threads << " threads";
  }
}

}  // namespace crosstalk::kernels
