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

// Mean and variance of draws, each within five standard errors of what the distribution has: a right generator fails
// one such comparison in 1.7 million.
void ExpectMoments(const std::vector<double>& draws, double mean, double variance, double fourth_moment) {
  double sum = 0, squares = 0;
  for (const double draw : draws) {
    sum += draw - mean;
    squares += (draw - mean) * (draw - mean);
  }
  const auto n = static_cast<double>(draws.size());
  EXPECT_NEAR(sum / n, 0, 5 * std::sqrt(variance / n));
  // The standard error of the mean of (x - mean)²: its own variance is the fourth central moment - variance².
  EXPECT_NEAR(squares / n, variance, 5 * std::sqrt((fourth_moment - variance * variance) / n));
}

// The largest distance between the empirical function of sorted draws and the given one, times sqrt(n): Kolmogorov's
// statistic, which exceeds 2.5 with probability 2·exp(-2·2.5²) = 7e-6.
double Kolmogorov(const std::vector<double>& draws, const std::function<double(double)>& distribution) {
  const auto n = static_cast<double>(draws.size());
  double largest = 0;
  for (size_t i = 0; i < draws.size(); ++i) {
    const double f = distribution(draws[i]), at = static_cast<double>(i);
    largest = std::max({largest, f - at / n, (at + 1) / n - f});
  }
  return largest * std::sqrt(n);
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

TEST(RandomTest, DrawsHaveTheirMomentsAndDistribution) {
  const RandomKey key{1, StreamId("draws"), 0};
  // With phi the density and Z = Phi(2) - Phi(-2): E x² = 1 - 2·2·phi(2)/Z, E x⁴ = 3·E x² - 2·8·phi(2)/Z.
  const double z = NormalDistribution(2) - NormalDistribution(-2);
  const double phi = std::exp(-2.0) / std::sqrt(2 * std::acos(-1.0)), truncated = 1 - 4 * phi / z;
  const auto identity = [](double x) { return x; };
  const double below_1 = std::nextafter(1.0, 0.0), infinity = HUGE_VAL;
  const struct {
    const char* name;
    std::function<double(uint64_t)> draw;
    double mean, variance, fourth_moment, least, most;
    std::function<double(double)> distribution;
  } rows[] = {
      {"float", [&](uint64_t i) { return Uniform(key, i); }, 0.5, 1.0 / 12, 1.0 / 80, 0, below_1, identity},
      {"double", [&](uint64_t i) { return UniformDouble(key, i); }, 0.5, 1.0 / 12, 1.0 / 80, 0, below_1, identity},
      {"normal", [&](uint64_t i) { return Normal(key, i); }, 0, 1, 3, -infinity, infinity, NormalDistribution},
      {"truncated", [&](uint64_t i) { return TruncatedNormal(key, i); }, 0, truncated, 3 * truncated - 16 * phi / z,
       -2 - 1e-12, 2 + 1e-12, [&](double x) { return (NormalDistribution(x) - NormalDistribution(-2)) / z; }}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    std::vector<double> draws(kSamples);
    for (int64_t i = 0; i < kSamples; ++i) draws[i] = row.draw(i);
    ExpectMoments(draws, row.mean, row.variance, row.fourth_moment);
    std::sort(draws.begin(), draws.end());
    EXPECT_LT(Kolmogorov(draws, row.distribution), 2.5);
    EXPECT_GE(draws.front(), row.least);
    EXPECT_LE(draws.back(), row.most);
  }
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

TEST(RandomTest, FillsUseTheIndexOfTheElementOnAnyNumberOfThreads) {
  const RandomKey key{6, StreamId("fill"), 9};
  const Shape shape = {7, 11, 1013};  // several grains and a remainder
  const std::pair<std::function<void(const Tensor&)>, std::function<double(uint64_t)>> fills[] = {
      {[&](const Tensor& t) { FillUniform(t, key, -2, 3); },
       [&](uint64_t i) { return -2 + 5 * UniformDouble(key, i); }},
      {[&](const Tensor& t) { FillNormal(t, key, 1, 2); }, [&](uint64_t i) { return 1 + 2 * Normal(key, i); }},
      {[&](const Tensor& t) { FillTruncatedNormal(t, key, 0.5); },
       [&](uint64_t i) { return 0.5 * TruncatedNormal(key, i); }}};
  for (const auto& [fill, value] : fills) {
    std::vector<double> expected(shape.NumElements());
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = value(i);
    const std::vector<float> rounded(expected.begin(), expected.end());
    for (const int threads : {1, 2, 3, 8}) {
      const ThreadsScope scope(threads);
      const Tensor in_double = Tensor::Empty(shape, DType::kFloat64), in_float = Tensor::Empty(shape, DType::kFloat32);
      fill(in_double);
      fill(in_float);
      EXPECT_TRUE(in_double.ToVector<double>() == expected) << threads << " threads";
      EXPECT_TRUE(in_float.ToVector<float>() == rounded) << threads << " threads";
    }
  }
  EXPECT_THROW(FillNormal(Tensor::Zeros({3, 5}, DType::kFloat64).Transpose(0, 1), key, 0, 1), Error);
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
