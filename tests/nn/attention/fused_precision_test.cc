// How far the fused attention is from double, beside the composed one in float: with logits of any size, near or far
// from each other, the same rounding decides both. docs/numerics.md states the bound.

#include "crosstalk/kernels/simd.h"
#include "tests/support/attention_cases.h"

namespace crosstalk::fused_precision_test {

// The largest |actual - expected|, as a part of the largest |expected| where that is not 0; NaN if there is one.
double ErrorOf(const Array<double>& actual, const Array<double>& expected) {
  double largest = 0, error = 0;
  for (const double value : expected.values()) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < expected.values().size(); ++i) {
    const double difference = std::abs(actual.values()[i] - expected.values()[i]);
    if (!(difference <= error)) error = difference;
    if (std::isnan(error)) break;
  }
  return largest > 0 ? error / largest : error;
}

// The layer in float and in double start from the same numbers: else the rounding of inputs would decide.
void RoundToFloat(AttentionInputs<double>& in) {
  using In = AttentionInputs<double>;
  for (Array<double> In::*array : {&In::X, &In::M, &In::P_q, &In::P_k, &In::P_v, &In::P_o, &In::P_l, &In::P_w,
                                   &In::P_Xl, &In::P_Ml, &In::P_Xw, &In::P_Mw, &In::P, &In::Q, &In::bias}) {
    for (double& value : (in.*array).values()) value = static_cast<float>(value);
  }
}

// Memory positions in groups of as many equal ones.
void RepeatPositions(Array<double>& M, int64_t times) {
  for (int64_t b = 0; b < M.size(0); ++b)
    for (int64_t j = 0; j < M.size(1); ++j)
      for (int64_t d = 0; d < M.size(2); ++d) M(b, j, d) = M(b, j / times * times, d);
}

std::vector<AttentionConfig> Kinds() {
  return {DotProductConfig(),
          MixingConfig({}),
          MixingConfig({.P_l = true}),
          MixingConfig({.P_w = true}),
          MixingConfig({.P_l = true, .P_w = true}),
          MixingConfig({.P_l = true, .P_w = true, .P_Xl = true, .P_Ml = true, .P_Xw = true, .P_Mw = true}),
          BilinearConfig()};
}

// One result's errors by both paths.
struct Errors {
  double fused = 0, composed = 0;
};

// X and M times √size: logits of about `size`, in the dynamic kind of size^1.5.
AttentionInputs<double> InputsOfSize(const AttentionCase& c, double size, uint64_t seed) {
  AttentionInputs<double> in = MakeInputs(c, seed);
  for (double& value : in.X.values()) value *= std::sqrt(size);
  for (double& value : in.M.values()) value *= std::sqrt(size);
  return in;
}

std::map<std::string, Errors> ErrorsOf(AttentionCase c, AttentionInputs<double> in) {
  RoundToFloat(in);
  const std::vector<NamedArray> expected = ReferenceResults(c, in);
  const std::vector<NamedArray> composed = LayerResults(c, in, DType::kFloat32);
  c.config.implementation = AttentionImplementation::kFused;
  const std::vector<NamedArray> fused = LayerResults(c, in, DType::kFloat32);
  std::map<std::string, Errors> errors;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].name == "W" || expected[i].name == "U") continue;
    errors[expected[i].name] = {ErrorOf(fused[i].array, expected[i].array),
                                ErrorOf(composed[i].array, expected[i].array)};
  }
  return errors;
}

// A dozen roundings of a result's largest magnitude: what either path may be off where neither loses anything.
constexpr double kRoundings = 1e-6;

// Logits so far apart that a row has one weight, or two equal ones: no rounding of a logit is left to hide an error. (A
// bias does not go with equal positions: of 1.5e7 + bias only its rounding is left.)
TEST(AttentionFusedPrecisionTest, AtHugeLogitsNoResultIsWorseThanByTheComposedPath) {
  for (const AttentionConfig& config : Kinds()) {
    AttentionCase dropped{.name = "dropped", .config = config, .n = 35, .m = 67, .dropout = true};
    dropped.config.dropout_rate = 0.3;
    const AttentionCase repeated{.name = "repeated", .config = config, .n = 35, .m = 67, .pairs = true};
    const AttentionCase few{.name = "few queries", .config = config, .n = 3, .m = 67, .pairs = true, .bias = true};
    for (const double size : {1.5e7, 1.5e8, 1.5e9, 1e20, 1e32}) {
      if (config.mixing.P_Xl && size > 1e20) continue;  // J · R overflows
      for (const AttentionCase& c : {dropped, repeated, few}) {
        AttentionInputs<double> in = InputsOfSize(c, size, 5);
        if (c.name == "repeated") RepeatPositions(in.M, 2);
        for (const auto& [name, error] : ErrorsOf(c, in)) {
          EXPECT_LE(error.fused, 2 * error.composed + kRoundings) << name << ", " << size << ", " << c;
        }
      }
    }
  }
}

// Where rows have weights between 0 and 1 a logit's rounding decides the error, and in a single problem either path may
// have the luck: their mean counts, over problems of all sizes.
TEST(AttentionFusedPrecisionTest, TheErrorIsTheComposedPathsAtLogitsOfAnySize) {
  for (const AttentionConfig& config : Kinds()) {
    for (const int64_t n : {3, 35}) {
      std::map<std::string, double> log_ratio;
      int problems = 0;
      for (const double size : {1.0, 1e2, 1e3, 1e4, 1e6}) {
        for (const bool restricted : {false, true}) {
          AttentionCase c{.name = "any", .config = config, .b = 2, .n = n, .m = 67};
          c.bias = c.pairs = restricted;
          for (uint64_t seed = 10; seed < 12; ++seed) {
            ++problems;
            for (const auto& [name, error] : ErrorsOf(c, InputsOfSize(c, size, seed))) {
              ASSERT_FALSE(std::isnan(error.fused)) << name << ", " << size << ", " << c;
              log_ratio[name] += std::log((error.fused + kRoundings) / (error.composed + kRoundings));
            }
          }
        }
      }
      for (const auto& [name, sum] : log_ratio) {
        EXPECT_LE(std::exp(sum / problems), 2) << name << ", " << ToString(config) << " n=" << n;
      }
    }
  }
}

// What all keys have in common takes no part in dQ, and leaves the rounding of D in it, which is a few of O's here.
TEST(AttentionFusedPrecisionTest, KeysFarFromZeroCostAFewTimesTheComposedPathsError) {
  for (const AttentionConfig& config : {MixingConfig({}), MixingConfig({.P_l = true}), BilinearConfig()}) {
    std::map<std::string, double> log_ratio;
    constexpr int kProblems = 5;
    for (uint64_t seed = 0; seed < kProblems; ++seed) {
      const AttentionCase c{.name = "offset", .config = config, .b = 3, .n = 35, .m = 67};
      AttentionInputs<double> in = MakeInputs(c, seed);
      for (double& value : in.M.values()) value += 100;
      for (const auto& [name, error] : ErrorsOf(c, in)) {
        log_ratio[name] += std::log((error.fused + kRoundings) / (error.composed + kRoundings));
      }
    }
    for (const auto& [name, sum] : log_ratio)
      EXPECT_LE(std::exp(sum / kProblems), 4) << name << ", " << ToString(config);
  }
}

}  // namespace crosstalk::fused_precision_test
