// One order of every sum: the fused attention gives the same bits on all SIMD targets that fuse multiply-adds, whatever
// the width of their vectors.
#include <cctype>
#include <string>
#include <vector>

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/runtime/random.h"
#include "gtest/gtest.h"
#include "tests/kernels/attention/attention_kinds.h"
#include "tests/kernels/attention/attention_problem.h"
#include "tests/support/fusing_targets.h"
#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {
namespace attention_targets_test {

// Every result of forward and backward, on every such target, against the widest one's.
void ExpectSameResults(const AttentionProblem& p, const std::string& what) {
  const std::vector<std::string> targets = FusingSimdTargets();
  std::vector<AttentionResults<float>> results;
  for (const std::string& target : targets) {
    RestrictSimdTarget(target);
    results.push_back(FusedAttention(p));
  }
  RestrictSimdTarget("");
  for (size_t i = 1; i < targets.size(); ++i) {
    AttentionResults<float>::ForEach([&](const char* name, Floats AttentionResults<float>::*member) {
      EXPECT_TRUE(SameBits(results[i].*member, results[0].*member))
          << name << " on " << targets[i] << " and " << targets[0] << ", " << what << ", " << Describe(p.call.shape);
    });
  }
}

class AttentionTargetsTest : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(AllKinds, AttentionTargetsTest, ::testing::ValuesIn(kKinds),
                         [](const auto& info) { return TestName(info.param); });

TEST_P(AttentionTargetsTest, MasksBiasesAndDropout) {
  const AttentionShape sizes = Shape(2, 19, 37, 3, 5, 7, 11, 13);
  ExpectSameResults(AttentionProblem(OfKind(GetParam(), sizes)), "plain");
  for (const AttentionBias bias : {AttentionBias::kNone, AttentionBias::kDense, AttentionBias::kRelativePosition}) {
    AttentionShape s = OfKind(GetParam(), sizes);
    s.bias = bias;
    s.buckets = 9;
    ExpectSameResults(AttentionProblem(s, {.key_padding = true, .attention = true}, 0.3), "masked");
    s.causality = AttentionCausality::kCausal;
    ExpectSameResults(AttentionProblem(s, {.key_padding = true}, 0.1), "causal");
  }
}

// Sizes of keys and values on both sides of every vector's width, and numbers of heads around the register tiles'.
TEST_P(AttentionTargetsTest, OddSizes) {
  for (const int64_t d : {1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33}) {
    ExpectSameResults(AttentionProblem(OfKind(GetParam(), Shape(1, 9, 35, 2, 3, 4, d, d + 2))), "sizes");
  }
  for (const int64_t h : {1, 2, 5, 6, 7, 11, 12, 13, 25}) {
    ExpectSameResults(AttentionProblem(OfKind(GetParam(), Shape(1, 9, 33, h, h + 1, h + 2, 3, 2))), "heads");
  }
  for (const int64_t m : {1, 3, 5, 8, 15, 17, 31, 33, 63, 65}) {
    ExpectSameResults(AttentionProblem(OfKind(GetParam(), Shape(3, 7, m, 3, 2, 4, 5, 6))), "positions");
  }
}

// K and V read in place.
TEST_P(AttentionTargetsTest, FewQueriesAsInDecoding) {
  for (const int64_t n : {1, 3, 4}) {
    for (const int64_t d : {1, 4, 7, 8, 9, 15, 16, 17, 23, 24, 33, 47}) {
      ExpectSameResults(
          AttentionProblem(OfKind(GetParam(), Shape(2, n, 43, 3, 4, 5, d, d + 3)), {.key_padding = true}, 0.2), "few");
    }
  }
}

TEST_P(AttentionTargetsTest, ManyQueriesAndLongRows) {
  AttentionShape s = OfKind(GetParam(), Shape(1, 133, 517, 3, 5, 7, 9, 11));
  s.bias = AttentionBias::kRelativePosition;
  s.buckets = 32;
  ExpectSameResults(AttentionProblem(s, {}, 0.1), "many queries");
  ExpectSameResults(AttentionProblem(OfKind(GetParam(), Shape(1, 3, 4099, 3, 5, 7, 9, 11))), "long rows");
}

// Logits of any magnitude: the running maximum rises again and again, weights of 1 and of 0.
TEST_P(AttentionTargetsTest, ExtremeLogits) {
  for (const float magnitude : {1e-30f, 30.0f, 1e3f, 1e8f, 1e15f}) {
    for (const int64_t n : {3, 19}) {
      AttentionProblem p(OfKind(GetParam(), Shape(2, n, 133, 3, 5, 7, 11, 13)));
      for (float& q : p.Q) q *= magnitude;
      for (size_t i = 0; i < p.K.size(); ++i) p.K[i] *= 1 + static_cast<float>(i) / 1000;
      ExpectSameResults(p, "logits of " + std::to_string(magnitude));
    }
  }
}

// Rows too long to be kept, which are computed twice, in blocks of several tiles.
TEST(AttentionTargetsLongTest, RowsTooLongForTheCache) {
  AttentionShape s = Talking(Shape(1, 9, 4801, 2, 140, 3, 1, 1));
  s.R_Mw = s.R_Xl = true;
  s.causality = AttentionCausality::kCausal;
  ExpectSameResults(AttentionProblem(s, {.key_padding = true}, 0.2), "computed twice");
}

TEST(AttentionTargetsLongTest, ShapesAtRandom) {
  for (uint32_t i = 0; i < 60; ++i) {
    const RandomKey key{.seed = 17, .stream = StreamId("shapes"), .step = i};
    int draws = 0;
    const auto draw = [&](uint32_t most) {
      return 1 + static_cast<int64_t>(UniformInt(key, static_cast<uint64_t>(draws++), most));
    };
    const Kind& kind = kKinds[draw(std::size(kKinds)) - 1];
    AttentionShape s = Shape(draw(3), draw(40), draw(80), draw(14), draw(14), draw(14), draw(36), draw(36));
    s = OfKind(kind, s);
    s.bias = static_cast<AttentionBias>(draw(3) - 1);
    s.buckets = draw(12);
    if (s.n <= s.m && draw(2) == 1) s.causality = AttentionCausality::kCausal;
    const ProblemMasks masks{.key_padding = draw(2) == 1, .attention = draw(2) == 1};
    ExpectSameResults(AttentionProblem(s, masks, draw(2) == 1 ? 0.15 : 0.0), kind.name);
  }
}

}  // namespace attention_targets_test
}  // namespace crosstalk::kernels
