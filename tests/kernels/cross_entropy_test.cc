#include "crosstalk/kernels/reference/rows.h"
#include "crosstalk/kernels/rows.h"
#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {
namespace cross_entropy_test {

CROSSTALK_KERNEL_TEST(CrossEntropyTest);

// log Z as in softmax_test; nll subtracts a logit, |logit| < 16; a gradient is a probability, relatively off by 200 u,
// times a weight, minus the weight at the target.
template <typename T>
void CheckCrossEntropy() {
  const double u = kRoundoff<T>;
  std::vector<int64_t> widths = {5003};
  for (int64_t n = 1; n <= kMaxLength; ++n) widths.push_back(n);
  for (const int64_t classes : widths) {
    constexpr int64_t rows = 5;
    const std::vector<T> logits = RandomValues<T>(rows * classes, "logits", 3);
    const std::vector<T> weights = RandomValues<T>(rows, "weights");
    const std::vector<int32_t> targets = {0, -1, static_cast<int32_t>(classes - 1), static_cast<int32_t>(classes / 2),
                                          static_cast<int32_t>(classes / 3)};
    const std::vector<double> wide = ToDouble(logits), wide_weights = ToDouble(weights);
    for (const double z_loss : {0.0, 0.01}) {
      const CrossEntropyOptions options{-1, z_loss};
      std::vector<double> nll(rows), log_z(rows), gradient(rows * classes);
      bool correct[rows], out_correct[rows];
      reference::CrossEntropy(rows, classes, wide.data(), targets.data(), options, nll.data(), log_z.data(), correct);
      reference::CrossEntropyGradient(rows, classes, wide.data(), targets.data(), log_z.data(), options, 0.5,
                                      wide_weights.data(), gradient.data());
      Guarded<T> in(logits), out_nll(rows), out_log_z(rows), out(rows * classes);
      CrossEntropy(rows, classes, in.data(), targets.data(), options, out_nll.data(), out_log_z.data(), out_correct);
      for (int64_t r = 0; r < rows; ++r) ASSERT_EQ(out_correct[r], correct[r]) << classes << " row " << r;
      CrossEntropyGradient(rows, classes, in.data(), targets.data(), out_log_z.data(), options, T(0.5), weights.data(),
                           out.data());
      ASSERT_TRUE(AllClose(out_nll.values(), nll, {100 * u, 2 * u})) << classes;
      ASSERT_TRUE(AllClose(out_log_z.values(), log_z, {64 * u, 2 * u})) << classes;
      ASSERT_TRUE(AllClose(out.values(), gradient, {4 * u, 200 * u})) << classes;
      // In place.
      CrossEntropyGradient(rows, classes, in.data(), targets.data(), out_log_z.data(), options, T(0.5), weights.data(),
                           in.data());
      ASSERT_TRUE(SameBits(in.values(), out.values()));
      ASSERT_TRUE(out.GuardsIntact() && out_nll.GuardsIntact() && out_log_z.GuardsIntact());
    }
  }
}
CROSSTALK_FLOATS_TEST(CrossEntropyTest, MatchesTheReference, CheckCrossEntropy)

// Logits of which log Z keeps no digits for the logarithm, some equal or near each other: loss and gradient as in
// double. Below 8192 one rounding of log Z is left in both.
TEST_P(CrossEntropyTest, LogitsOfAnyMagnitude) {
  constexpr int64_t kRows = 5, kClasses = 37;
  const CrossEntropyOptions options{-1, 0};
  const std::vector<int32_t> targets = {0, 1, 3, 36, -1};
  for (const float size : {1.0f, 1e3f, 8e3f, 9e3f, 1e5f, 1.5e7f, 1e12f, 1e30f}) {
    for (const float sign : {1.0f, -1.0f}) {
      const float step = std::max(1.0f, std::nextafter(size, 2 * size) - size);
      std::vector<float> logits(kRows * kClasses), weights(kRows, 1.0f), nll(kRows), log_z(kRows);
      for (size_t i = 0; i < logits.size(); ++i) logits[i] = sign * size - step * static_cast<float>(i * i % 5);
      std::vector<float> gradient(logits.size());
      bool correct[kRows], expected_correct[kRows];
      CrossEntropy(kRows, kClasses, logits.data(), targets.data(), options, nll.data(), log_z.data(), correct);
      CrossEntropyGradient<float>(kRows, kClasses, logits.data(), targets.data(), log_z.data(), options, 1.0f,
                                  weights.data(), gradient.data());
      // Logits less the largest of their row, which double holds to the last bit.
      std::vector<double> wide = ToDouble(logits), expected_nll(kRows), expected_log_z(kRows), expected(logits.size());
      for (auto row = wide.begin(); row != wide.end(); row += kClasses) {
        const double largest = *std::max_element(row, row + kClasses);
        std::for_each(row, row + kClasses, [&](double& x) { x -= largest; });
      }
      reference::CrossEntropy(kRows, kClasses, wide.data(), targets.data(), options, expected_nll.data(),
                              expected_log_z.data(), expected_correct);
      const std::vector<double> ones(kRows, 1.0);
      reference::CrossEntropyGradient<double>(kRows, kClasses, wide.data(), targets.data(), expected_log_z.data(),
                                              options, 1.0, ones.data(), expected.data());
      const double rounding = 2 * std::min(size, 8192.0f) * kRoundoff<float> + 200 * kRoundoff<float>;
      EXPECT_TRUE(std::equal(correct, correct + kRows, expected_correct)) << sign * size;
      EXPECT_TRUE(AllClose(nll, expected_nll, {rounding, 200 * kRoundoff<float>})) << sign * size;
      EXPECT_TRUE(AllClose(gradient, expected, {rounding, 0})) << sign * size;
    }
  }
}

// d loss / d logits by central differences in double, step 1e-5: error of order 1e-10.
TEST_P(CrossEntropyTest, GradientIsTheDerivativeOfNllPlusZLoss) {
  const int64_t classes = 11;
  const std::vector<int32_t> target = {4};
  const CrossEntropyOptions options{-1, 0.1};
  std::vector<double> logits = RandomValues<double>(classes, "logits"), gradient(classes);
  double nll = 0, log_z = 0;
  bool correct = false;
  const auto loss = [&] {
    CrossEntropy(1, classes, logits.data(), target.data(), options, &nll, &log_z, &correct);
    return nll + options.z_loss * log_z * log_z;
  };
  loss();
  CrossEntropyGradient<double>(1, classes, logits.data(), target.data(), &log_z, options, 1.0, nullptr,
                               gradient.data());
  for (int64_t c = 0; c < classes; ++c) {
    const double before = logits[c];
    logits[c] = before + 1e-5;
    const double above = loss();
    logits[c] = before - 1e-5;
    const double below = loss();
    logits[c] = before;
    EXPECT_NEAR(gradient[c], (above - below) / 2e-5, 1e-8) << c;
  }
}

// Every class in turn is the largest, alone and with an equal one after it: the first of the two is right.
TEST_P(CrossEntropyTest, TheFirstOfTheLargestLogitsIsRight) {
  const CrossEntropyOptions options{-1, 0};
  for (int64_t classes = 1; classes <= kMaxLength; ++classes) {
    for (int64_t largest = 0; largest < classes; ++largest) {
      for (int64_t second = largest; second < classes; second += 7) {
        std::vector<float> logits = RandomValues<float>(classes, "logits", 0.1);
        logits[largest] = logits[second] = 3;
        for (const int64_t target : {largest, second, (largest + 1) % classes}) {
          const auto id = static_cast<int32_t>(target);
          float nll = 0, log_z = 0;
          bool correct = false;
          CrossEntropy(1, classes, logits.data(), &id, options, &nll, &log_z, &correct);
          ASSERT_EQ(correct, target == largest) << classes << " classes, largest " << largest << " and " << second;
        }
      }
    }
  }
}

TEST_P(CrossEntropyTest, ARowThatHoldsANanIsWrong) {
  std::vector<float> logits = {1, 5, std::numeric_limits<float>::quiet_NaN(), 0};
  for (const int32_t target : {0, 1, 2, 3}) {
    float nll = 0, log_z = 0;
    bool correct = true;
    CrossEntropy(1, 4, logits.data(), &target, {-1, 0}, &nll, &log_z, &correct);
    EXPECT_FALSE(correct) << target;
  }
}

}  // namespace cross_entropy_test
}  // namespace crosstalk::kernels
