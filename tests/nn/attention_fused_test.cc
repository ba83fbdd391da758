#include "nn/attention_fused.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/parallel.h"
#include "tests/support/attention_cases.h"

namespace crosstalk {
namespace {

std::vector<AttentionCase> FusedCases() {
  std::vector<AttentionCase> cases = AttentionCases();
  for (AttentionCase& c : cases) c.config.implementation = AttentionImplementation::kFused;
  return cases;
}

// The same bound as for the composed path in float: sums of at most some 1000 terms. A gradient that is 0 because two
// equal terms cancel (a softmax over one position) keeps the
// rounding of those terms, which are of size 1 to 10, summed over some 50 rows: kCancelled.
constexpr double kTolerance = 1e-5;
constexpr double kCancelled = 3e-5;

::testing::AssertionResult CloseOrCancelled(const Array<double>& actual, const Array<double>& expected) {
  const bool all_zero =
      std::all_of(expected.values().begin(), expected.values().end(), [](double x) { return x == 0; });
  if (!all_zero) return CloseTo(actual, expected, kTolerance);
  for (const double value : actual.values()) {
    if (!(std::abs(value) <= kCancelled)) return ::testing::AssertionFailure() << value << " where 0 is expected";
  }
  return ::testing::AssertionSuccess();
}

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
      EXPECT_TRUE(CloseOrCancelled(actual[i].array, expected[i].array)) << expected[i].name;
    }
  }
}

TEST(AttentionFusedTest, GivesTheSameBitsForAnyNumberOfThreads) {
  const int before = NumThreads();
  for (const AttentionCase& c : FusedCases()) {
    if (c.name != "everything" && c.name != "causal with bias and padding" && c.name != "dropout") continue;
    SCOPED_TRACE(::testing::Message() << c);
    const AttentionInputs<double> in = MakeInputs(c);
    SetNumThreads(1);
    const std::vector<NamedArray> expected = LayerResults(c, in, DType::kFloat32);
    for (const int threads : {2, 3, 5, 8}) {
      SetNumThreads(threads);
      const std::vector<NamedArray> actual = LayerResults(c, in, DType::kFloat32);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(actual[i].array.values(), expected[i].array.values()) << expected[i].name << ", " << threads;
      }
    }
  }
  SetNumThreads(before);
}

TEST(AttentionFusedTest, WhatItDoesNotGiveIsComputedByTheComposedPath) {
  AttentionCase c = FusedCases().front();
  const AttentionInputs<double> in = MakeInputs(c);
  const LayerLeaves leaves(c, in, DType::kFloat32);
  AttentionExtras extras;
  extras.outputs = AttentionOutputs::kWithWeights;
  EXPECT_TRUE(ComputeAttention(c.config, leaves.Parameters(), leaves.X, leaves.M, extras).W.defined());
  const AttentionMemory memory = {.K = leaves.M};
  EXPECT_THROW(AttendFused(c.config, leaves.Parameters(), leaves.X, memory, extras, std::nullopt), Error);
}

}  // namespace
}  // namespace crosstalk
