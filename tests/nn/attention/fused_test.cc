
#include <gtest/gtest.h>

#include "crosstalk/autograd/tape.h"
#include "crosstalk/runtime/parallel.h"
#include "tests/support/attention_cases.h"

namespace crosstalk {
namespace fused_test {

// All that have a kernel.
std::vector<AttentionCase> FusedCases() {
  std::vector<AttentionCase> cases = AttentionCases();
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

TEST(AttentionFusedTest, GivesTheSameBitsForAnyNumberOfThreads) {
  for (const AttentionCase& c : FusedCases()) {
    if (c.name != "everything" && c.name != "causal with bias and padding" && c.name != "dropout") continue;
    SCOPED_TRACE(::testing::Message() << c);
    const AttentionInputs<double> in = MakeInputs(c);
    const ThreadsScope one_thread(1);
    const std::vector<NamedArray> expected = LayerResults(c, in, DType::kFloat32);
    for (const int threads : {2, 3, 5, 8}) {
      const ThreadsScope scope(threads);
      const std::vector<NamedArray> actual = LayerResults(c, in, DType::kFloat32);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(actual[i].array.values(), expected[i].array.values()) << expected[i].name << ", " << threads;
      }
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

TEST(AttentionFusedTest, WhatItDoesNotGiveIsComputedByTheComposedPath) {
  AttentionCase c = FusedCases().front();
  const AttentionInputs<double> in = MakeInputs(c);
  const LayerLeaves leaves(c, in, DType::kFloat32);
  AttentionCallOptions options;
  options.outputs = AttentionOutputs::kWithWeights;
  const AttentionResult with_weights = ComputeAttention(c.config, leaves.Parameters(), leaves.X, leaves.M, options);
  EXPECT_TRUE(with_weights.W.defined());
  EXPECT_EQ(with_weights.implementation, AttentionImplementation::kComposed);
}

}  // namespace fused_test
}  // namespace crosstalk
