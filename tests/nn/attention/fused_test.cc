// The fused attention in float beside the plain loops in double, and beside the composed path.
#include "crosstalk/autograd/tape.h"
#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/runtime/random.h"
#include "tests/support/attention_cases.h"

namespace crosstalk::fused_test {

// All that have a kernel; and heads of one, two and four numbers, the largest of the paper's Table 7, and keys larger
// than the model over the heads.
std::vector<AttentionCase> FusedCases() {
  std::vector<AttentionCase> cases = AttentionCases();
  for (const AttentionKind kind : {AttentionKind::kMultihead, AttentionKind::kTalking}) {
    for (const AttentionOptions& options : {AttentionOptions{.kind = kind, .heads = 96},
                                            {.kind = kind, .heads = 48},
                                            {.kind = kind, .heads = 24},
                                            {.kind = kind, .heads = 12, .key_size = 128},
                                            {.kind = kind, .heads = 768}}) {
      const int64_t d_model = options.heads == 768 ? 768 : 96, n = options.heads == 768 ? 5 : 37;
      AttentionConfig config = MakeAttentionConfig(options, d_model);
      config.scale = 1 / std::sqrt(static_cast<double>(config.d_k));
      const std::string name = StrCat(options.heads, " heads");
      cases.push_back({.name = name, .config = config, .b = 1, .n = n, .m = n, .pairs = true, .bias = true});
    }
  }
  for (AttentionCase& c : cases) c.config.implementation = AttentionImplementation::kFused;
  std::erase_if(cases, [](const AttentionCase& c) {
    return ImplementationFor(c.config, DType::kFloat32, AttentionOutputs::kOutputOnly) !=
           AttentionImplementation::kFused;
  });
  return cases;
}

// The same bound as for the composed path in float: sums of at most some 1000 terms.
constexpr double kTolerance = 1e-5;

TEST(AttentionFusedTest, EqualsThePlainLoopsInValuesAndGradients) {
  for (const AttentionCase& c : FusedCases()) {
    SCOPED_TRACE(::testing::Message() << c);
    const AttentionInputs<double> in = MakeInputs(c);
    const std::vector<NamedArray> expected = ReferenceResults(c, in);
    const std::vector<NamedArray> actual = LayerResults(c, in, DType::kFloat32);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(actual[i].name, expected[i].name);
      if (actual[i].name == "W" || actual[i].name == "U") {
        EXPECT_FALSE(actual[i].array.present()) << "the fused implementation ran if there is no " << actual[i].name;
        continue;
      }
      EXPECT_TRUE(CloseOrCancelled(actual[i].array, expected[i].array, kTolerance)) << expected[i].name;
    }
  }
}

// Float is computed by the fused implementation, double by the composed one, from the same table.
TEST(AttentionFusedTest, ABiasByDistanceEqualsTheComposedPathInValuesAndGradients) {
  for (const AttentionCase& c : FusedCases()) {
    if (c.name != "everything" && c.name != "causal with bias and padding" && c.name != "one query") continue;
    SCOPED_TRACE(::testing::Message() << c);
    const AttentionInputs<double> in = MakeInputs(c);
    constexpr int64_t kBuckets = 6;
    std::vector<int32_t> buckets;
    for (int64_t i = 0; i < c.n + c.m - 1; ++i) {  // no two neighbours alike, and no symmetry about distance 0
      buckets.push_back(static_cast<int32_t>((i * i + i / 3) % kBuckets));
    }
    const Tensor distance_bucket = Tensor::FromValues<int32_t>({c.n + c.m - 1}, buckets);
    const Array<double> table = RandomArray({c.config.h, kBuckets}, 1, {.seed = 4, .stream = 4});
    const auto run = [&](DType dtype) {
      const LayerLeaves leaves(c, in, dtype);
      const Variable values(ToTensor(table, dtype), Variable::RequiresGrad::kYes);
      AttentionCallOptions options = ExtrasOf(c, in, Variable());
      options.bias = LogitsBias(values, distance_bucket);
      const AttentionResult result = ComputeAttention(c.config, leaves.Parameters(), leaves.X, leaves.M, options);
      EXPECT_EQ(result.implementation,
                dtype == DType::kFloat32 ? AttentionImplementation::kFused : AttentionImplementation::kComposed);
      Backward(result.Y, ToTensor(MakeOutputGradient(c), dtype));
      return std::vector<Array<double>>{ToArray(result.Y.value()), ToArray(leaves.X.grad()), ToArray(leaves.M.grad()),
                                        ToArray(values.grad())};
    };
    const std::vector<Array<double>> fused = run(DType::kFloat32), composed = run(DType::kFloat64);
    for (size_t i = 0; i < composed.size(); ++i) EXPECT_TRUE(CloseOrCancelled(fused[i], composed[i], kTolerance)) << i;
  }
}

// ---- How far it is from double, beside the composed one in float, with logits of any size, near or far from each
// other: the same rounding decides both. docs/numerics.md states the bound. ----

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

// The mean ratio of the errors of each result over several problems.
class MeanRatios {
 public:
  void Add(const std::map<std::string, Errors>& errors) {
    ++problems_;
    for (const auto& [name, error] : errors) {
      ASSERT_FALSE(std::isnan(error.fused)) << name;
      log_ratio_[name] += std::log((error.fused + kRoundings) / (error.composed + kRoundings));
    }
  }
  void ExpectAtMost(double most, const AttentionConfig& config) const {
    for (const auto& [name, sum] : log_ratio_) EXPECT_LE(std::exp(sum / problems_), most) << name << ToString(config);
  }

 private:
  std::map<std::string, double> log_ratio_;
  int problems_ = 0;
};

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
      MeanRatios ratios;
      for (const double size : {1.0, 1e2, 1e3, 1e4, 1e6}) {
        for (const bool restricted : {false, true}) {
          AttentionCase c{.name = "any", .config = config, .b = 2, .n = n, .m = 67};
          c.bias = c.pairs = restricted;
          for (uint64_t seed = 10; seed < 12; ++seed) ratios.Add(ErrorsOf(c, InputsOfSize(c, size, seed)));
        }
      }
      ratios.ExpectAtMost(2, config);
    }
  }
}

// What all keys have in common takes no part in dQ, and leaves the rounding of D in it, which is a few of O's here.
TEST(AttentionFusedPrecisionTest, KeysFarFromZeroCostAFewTimesTheComposedPathsError) {
  for (const AttentionConfig& config : {MixingConfig({}), MixingConfig({.P_l = true}), BilinearConfig()}) {
    MeanRatios ratios;
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const AttentionCase c{.name = "offset", .config = config, .b = 3, .n = 35, .m = 67};
      AttentionInputs<double> in = MakeInputs(c, seed);
      for (double& value : in.M.values()) value += 100;
      ratios.Add(ErrorsOf(c, in));
    }
    ratios.ExpectAtMost(4, config);
  }
}

}  // namespace crosstalk::fused_test
