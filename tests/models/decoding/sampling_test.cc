#include "crosstalk/models/decoding/sampling.h"

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "crosstalk/runtime/random.h"
#include "tests/support/messages.h"

namespace crosstalk::sampling_test {

const std::vector<bool> kAll(5, true);

Tensor Logits(const std::vector<float>& values) {
  return Tensor::FromValues<float>({static_cast<int64_t>(values.size())}, values);
}
// e^logit are 1, 8, 4, 2, 1, which sum to 16.
Tensor Halves() { return Logits({0, 2.0794415f, 1.3862944f, 0.6931472f, 0}); }

TEST(SamplingTest, TokensComeAsOftenAsTheirProbabilitySays) {
  std::map<int32_t, int> counts;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) ++counts[SampleToken(Halves(), kAll, {}, UniformDouble({3, 1, 0}, i))];
  const double expected[] = {1, 8, 4, 2, 1};
  for (int32_t id = 0; id < 5; ++id) {
    const double p = expected[id] / 16;
    // Five standard deviations.
    EXPECT_NEAR(counts[id] / double{kDraws}, p, 5 * std::sqrt(p * (1 - p) / kDraws)) << id;
  }
}

TEST(SamplingTest, TheNumberDecides) {
  EXPECT_EQ(SampleToken(Halves(), kAll, {}, 0), 0);
  EXPECT_EQ(SampleToken(Halves(), kAll, {}, 0.0624), 0);
  EXPECT_EQ(SampleToken(Halves(), kAll, {}, 0.0626), 1);
  EXPECT_EQ(SampleToken(Halves(), kAll, {}, std::nextafter(1.0, 0.0)), 4);
}

TEST(SamplingTest, TemperatureSharpensAndZeroTakesTheLikeliest) {
  // At 1/2 the squares: 1, 64, 16, 4, 1.
  EXPECT_EQ(SampleToken(Halves(), kAll, {.temperature = 0.5}, 0.9 / 86), 0);
  EXPECT_EQ(SampleToken(Halves(), kAll, {.temperature = 0.5}, 64.9 / 86), 1);
  EXPECT_EQ(SampleToken(Halves(), kAll, {.temperature = 0.5}, 65.1 / 86), 2);
  for (const double number : {0.0, 0.5, 0.999}) {
    EXPECT_EQ(SampleToken(Halves(), kAll, {.temperature = 0}, number), 1);
    EXPECT_EQ(SampleToken(Logits({1, 3, 3, 2, 0}), kAll, {.temperature = 0}, number), 1);  // the smaller id
  }
}

std::set<int32_t> Reached(const Tensor& logits, const SamplingOptions& options) {
  std::set<int32_t> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(SampleToken(logits, kAll, options, i / 1000.0));
  return ids;
}

TEST(SamplingTest, TopKAndTopPCutTheList) {
  EXPECT_EQ(Reached(Halves(), {.top_k = 1}), (std::set<int32_t>{1}));
  EXPECT_EQ(Reached(Halves(), {.top_k = 3}), (std::set<int32_t>{1, 2, 3}));
  EXPECT_EQ(Reached(Halves(), {.top_k = 4}), (std::set<int32_t>{0, 1, 2, 3}));  // of equals the smaller id
  EXPECT_EQ(Reached(Halves(), {.top_k = 9}).size(), 5u);
  EXPECT_EQ(Reached(Halves(), {.top_p = 0.4}), (std::set<int32_t>{1}));
  EXPECT_EQ(Reached(Halves(), {.top_p = 0.6}), (std::set<int32_t>{1, 2}));
  EXPECT_EQ(Reached(Halves(), {.top_k = 3, .top_p = 0.99}), (std::set<int32_t>{1, 2, 3}));
  EXPECT_EQ(Reached(Halves(), {.top_p = 1e-9}), (std::set<int32_t>{1}));
}

TEST(SamplingTest, OnlyAllowedAndFiniteTokensAreTaken) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(SampleToken(Logits({0, 9, 1}), {true, false, true}, {.temperature = 0}, 0), 2);
  EXPECT_EQ(SampleToken(Logits({-infinity, -3e38f, -infinity}), {true, true, true}, {}, 0.99), 1);
  // A forbidden one may be anything.
  EXPECT_EQ(SampleToken(Logits({NAN, 0}), {false, true}, {}, 0.5), 1);
  for (const Tensor& logits : {Logits({0, NAN}), Logits({0, infinity}), Logits({-infinity, -infinity})}) {
    testing::MessageOf([&] { SampleToken(logits, {true, true}, {}, 0.5); }, ErrorKind::kNumerical);
  }
}

TEST(SamplingTest, OptionsThatCannotBeAreNamed) {
  testing::ExpectRefused<SamplingOptions>({{"below 0", {.temperature = -1}, {"temperature"}},
                                           {"NaN", {.temperature = NAN}, {"temperature"}},
                                           {"a count", {.top_k = -1}, {"top_k"}},
                                           {"nothing", {.top_p = 0}, {"top_p"}},
                                           {"more than all", {.top_p = 1.5}, {"top_p"}}},
                                          [](const SamplingOptions& options) { options.Validate(); });
}

}  // namespace crosstalk::sampling_test
