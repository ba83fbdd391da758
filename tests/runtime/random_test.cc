#include "crosstalk/runtime/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "crosstalk/runtime/parallel.h"

namespace crosstalk {
namespace random_test {

using Words = std::array<uint32_t, 4>;

constexpr int64_t kSamples = 200'000;

// Mean and variance of kSamples draws, each within five standard errors of what the distribution has: a right
// generator fails one such comparison in 1.7 million.
void ExpectMoments(const std::function<double(uint64_t)>& draw, double mean, double variance, double fourth_moment) {
  double sum = 0;
  double squares = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    const double centred = draw(i) - mean;
    sum += centred;
    squares += centred * centred;
  }
  const double n = kSamples;
  EXPECT_NEAR(sum / n, 0, 5 * std::sqrt(variance / n));
  // The standard error of the mean of (x - mean)²: its own variance is the fourth central moment - variance².
  EXPECT_NEAR(squares / n, variance, 5 * std::sqrt((fourth_moment - variance * variance) / n));
}

// The largest distance between the empirical and the given distribution function, times sqrt(n): Kolmogorov's
// statistic, which exceeds 2.5 with probability 2·exp(-2·2.5²) = 7e-6.
double Kolmogorov(const std::function<double(uint64_t)>& draw, const std::function<double(double)>& distribution) {
  std::vector<double> values(kSamples);
  for (int64_t i = 0; i < kSamples; ++i) values[i] = draw(i);
  std::sort(values.begin(), values.end());
  double largest = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    const double f = distribution(values[i]);
    largest = std::max({largest, f - static_cast<double>(i) / kSamples, static_cast<double>(i + 1) / kSamples - f});
  }
  return largest * std::sqrt(static_cast<double>(kSamples));
}

double NormalDistribution(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

TEST(RandomTest, PhiloxGivesThePublishedAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(Philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomTest, EveryFieldOfTheKeyAndTheIndexMatter) {
  std::set<Words> blocks;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
    for (uint32_t stream : {0u, 1u}) {
      for (uint32_t step : {0u, 1u}) {
        for (uint64_t index : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
          EXPECT_TRUE(blocks.insert(RandomKey{seed, stream, step}.Block(index)).second);
        }
      }
    }
  }
}

TEST(RandomTest, BitsAreTheWordsOfTheBlocks) {
  const RandomKey key{5, 6, 7};
  for (uint64_t index = 0; index < 20; ++index) EXPECT_EQ(key.Bits(index), key.Block(index / 4)[index % 4]);
}

TEST(RandomTest, StreamIdIsFnv1a) {
  EXPECT_EQ(StreamId(""), 0x811c9dc5u);
  EXPECT_EQ(StreamId("a"), 0xe40c292cu);
  EXPECT_EQ(StreamId("foobar"), 0xbf9cf968u);
}

TEST(RandomTest, UniformHasItsMomentsAndDistribution) {
  const RandomKey key{1, StreamId("uniform"), 0};
  const auto single = [&](uint64_t i) { return static_cast<double>(Uniform(key, i)); };
  const auto twice = [&](uint64_t i) { return UniformDouble(key, i); };
  // U(0, 1) has mean 1/2, variance 1/12, fourth central moment 1/80.
  ExpectMoments(single, 0.5, 1.0 / 12, 1.0 / 80);
  ExpectMoments(twice, 0.5, 1.0 / 12, 1.0 / 80);
  const auto identity = [](double x) { return x; };
  EXPECT_LT(Kolmogorov(single, identity), 2.5);
  EXPECT_LT(Kolmogorov(twice, identity), 2.5);
  for (uint64_t i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(single(i) >= 0 && single(i) < 1) << i;
    ASSERT_TRUE(twice(i) >= 0 && twice(i) < 1) << i;
  }
}

TEST(RandomTest, NormalHasItsMomentsAndDistribution) {
  const RandomKey key{2, StreamId("normal"), 0};
  const auto draw = [&](uint64_t i) { return Normal(key, i); };
  ExpectMoments(draw, 0, 1, 3);
  EXPECT_LT(Kolmogorov(draw, NormalDistribution), 2.5);
}

TEST(RandomTest, NormalIsTheInverseOfItsDistributionAtTheBlock) {
  const RandomKey key{2, 3, 4};
  for (uint64_t i = 0; i < 1000; ++i) {
    const Words block = key.Block(i);
    const double u = (static_cast<double>((static_cast<uint64_t>(block[0]) << 32 | block[1]) >> 12) + 0.5) * 0x1p-52;
    // The density is at most 0.4, the error of the inverse 1e-15 times at most 8.3.
    EXPECT_NEAR(NormalDistribution(Normal(key, i)), u, 4e-15) << i;
  }
}

TEST(RandomTest, TruncatedNormalHasItsMomentsAndDistribution) {
  const RandomKey key{3, StreamId("truncated"), 0};
  const auto draw = [&](uint64_t i) { return TruncatedNormal(key, i); };
  // With phi the density and Z = Phi(2) - Phi(-2): E x² = 1 - 2·2·phi(2)/Z, E x⁴ = 3·E x² - 2·8·phi(2)/Z.
  const double z = NormalDistribution(2) - NormalDistribution(-2);
  const double phi = std::exp(-2.0) / std::sqrt(2 * std::acos(-1.0));
  const double variance = 1 - 4 * phi / z;
  ExpectMoments(draw, 0, variance, 3 * variance - 16 * phi / z);
  EXPECT_LT(Kolmogorov(draw, [&](double x) { return (NormalDistribution(x) - NormalDistribution(-2)) / z; }), 2.5);
  for (uint64_t i = 0; i < kSamples; ++i) ASSERT_LE(std::abs(draw(i)), 2 + 1e-12) << i;
}

TEST(RandomTest, NeighbouringIndicesAndStepsAreNotCorrelated) {
  // The mean of n products of independent standard normals has the standard error 1/sqrt(n).
  double indices = 0;
  double steps = 0;
  double streams = 0;
  const RandomKey key{4, 1, 1};
  for (int64_t i = 0; i < kSamples; ++i) {
    const double x = Normal(key, i);
    indices += x * Normal(key, i + 1);
    steps += x * Normal({4, 1, 2}, i);
    streams += x * Normal({4, 2, 1}, i);
  }
  const double limit = 5 * std::sqrt(static_cast<double>(kSamples));
  EXPECT_LT(std::abs(indices), limit);
  EXPECT_LT(std::abs(steps), limit);
  EXPECT_LT(std::abs(streams), limit);
}

TEST(RandomTest, UniformIntIsEven) {
  const RandomKey key{5, 0, 0};
  constexpr uint64_t kBound = 7;
  std::array<int64_t, kBound> counts{};
  for (int64_t i = 0; i < kSamples; ++i) {
    const uint64_t value = UniformInt(key, i, kBound);
    ASSERT_LT(value, kBound);
    ++counts[value];
  }
  // Chi-squared with 6 degrees of freedom exceeds 40 with probability 4.6e-7.
  const double expected = static_cast<double>(kSamples) / kBound;
  double chi_squared = 0;
  for (int64_t count : counts) chi_squared += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi_squared, 40);
  EXPECT_EQ(UniformInt(key, 3, 1), 0u);
  EXPECT_LT(UniformInt(key, 3, ~uint64_t{0}), ~uint64_t{0});
  EXPECT_THROW(UniformInt(key, 3, 0), Error);
}

TEST(RandomTest, FillsAreTheSameForAnyNumberOfThreads) {
  const RandomKey key{6, StreamId("fill"), 9};
  const Shape shape = {7, 11, 1013};  // several grains and a remainder
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    std::vector<std::vector<double>> first;
    for (int threads : {1, 2, 3, 8}) {
      const ThreadsScope scope(threads);
      std::vector<std::vector<double>> filled;
      const Tensor t = Tensor::Empty(shape, dtype);
      FillUniform(t, key, -2, 3);
      filled.push_back(t.To(DType::kFloat64).ToVector<double>());
      FillNormal(t, key, 1, 2);
      filled.push_back(t.To(DType::kFloat64).ToVector<double>());
      FillTruncatedNormal(t, key, 0.5);
      filled.push_back(t.To(DType::kFloat64).ToVector<double>());
      if (first.empty()) first = filled;
      EXPECT_TRUE(filled == first) << dtype << ", " << threads << " threads";
    }
  }
}

TEST(RandomTest, FillsUseTheIndexOfTheElement) {
  const RandomKey key{6, 1, 2};
  const Tensor t = Tensor::Empty({3, 5}, DType::kFloat64);
  FillUniform(t, key, -2, 3);
  for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(t.At({i / 5, i % 5}), -2 + 5 * UniformDouble(key, i));
  FillNormal(t, key, 1, 2);
  for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(t.At({i / 5, i % 5}), 1 + 2 * Normal(key, i));
  FillTruncatedNormal(t, key, 0.5);
  for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(t.At({i / 5, i % 5}), 0.5 * TruncatedNormal(key, i));
  EXPECT_THROW(FillNormal(t.Transpose(0, 1), key, 0, 1), Error);
  EXPECT_THROW(FillNormal(Tensor::Zeros({3}, DType::kInt32), key, 0, 1), Error);
}

TEST(RandomTest, SequencesDrawOneIndexAfterAnother) {
  const RandomKey key{8, 9, 10};
  RandomSequence sequence(key);
  EXPECT_EQ(sequence.Uniform(), Uniform(key, 0));
  EXPECT_EQ(sequence.UniformDouble(), UniformDouble(key, 1));
  EXPECT_EQ(sequence.Normal(), Normal(key, 2));
  EXPECT_EQ(sequence.UniformInt(10), UniformInt(key, 3, 10));
}

}  // namespace random_test
}  // namespace crosstalk
