// The fused attention in bfloat16: near kernels/reference in double for every member of the family, and of the same
// bits whatever computes it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/simd.h"
#include "gtest/gtest.h"
#include "tests/kernels/attention/bfloat16_checks.h"

namespace crosstalk::kernels {
namespace attention_bfloat16_test {

using testing::SameBits;
using Results = AttentionResults<float>;

class AttentionBFloat16Test : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(AllKinds, AttentionBFloat16Test, ::testing::ValuesIn(kKinds),
                         [](const auto& info) { return TestName(info.param); });

TEST_P(AttentionBFloat16Test, ValuesAndGradientsOfOrdinarySizes) {
  const Errors errors = ErrorsOf(AttentionProblem(InBFloat16(GetParam(), Shape(1, 96, 160, 12, 12, 12, 64, 64))));
  EXPECT_LE(errors.largest, kTolerance);
  EXPECT_LE(errors.mean, kMeanTolerance);
}

TEST_P(AttentionBFloat16Test, TheErrorGrowsNeitherWithPositionsNorWithHeads) {
  const auto error = [](int64_t n, int64_t h) {
    return ErrorsOf(AttentionProblem(InBFloat16(GetParam(), Shape(1, n, n, h, h, h, 64, 64)))).mean;
  };
  const double few = error(32, 4);
  EXPECT_LE(error(128, 4), 1.3 * few);
  EXPECT_LE(error(32, 16), 1.3 * few);
}

TEST_P(AttentionBFloat16Test, ValuesAndGradientsOfOddSizesOnEveryTarget) {
  for (const std::string& target : SupportedSimdTargets()) {
    RestrictSimdTarget(target);
    const AttentionShape s = InBFloat16(GetParam(), Shape(2, 19, 37, 3, 5, 7, 11, 13));
    EXPECT_LE(LargestError(AttentionProblem(s)), kTinyTolerance) << target;
    EXPECT_LE(LargestError(AttentionProblem(s, {.key_padding = true, .attention = true}, 0.2)), kTinyTolerance)
        << target;
  }
  RestrictSimdTarget("");
}

TEST_P(AttentionBFloat16Test, ValuesAndGradientsWithBiasesMasksAndDropout) {
  for (const AttentionBias bias : {AttentionBias::kDense, AttentionBias::kRelativePosition}) {
    AttentionShape s = InBFloat16(GetParam(), Shape(2, 41, 70, 5, 6, 7, 9, 10));
    s.bias = bias;
    s.buckets = 7;
    EXPECT_LE(LargestError(AttentionProblem(s)), kTinyTolerance);
    s.causality = AttentionCausality::kCausal;
    EXPECT_LE(LargestError(AttentionProblem(s, {.key_padding = true}, 0.1)), kTinyTolerance);
  }
}

// Odd sizes of more columns than are packed at a time.
TEST_P(AttentionBFloat16Test, ValuesAndGradientsOfOddSizesOfKeysAndValues) {
  for (const int64_t d : {1, 33, 35}) {
    EXPECT_LE(LargestError(AttentionProblem(InBFloat16(GetParam(), Shape(1, 21, 45, 5, 6, 7, d, d + 2))), 1.0),
              kTinyTolerance)
        << d;
  }
}

// Rows too long to be kept forward, in blocks of several tiles.
TEST_P(AttentionBFloat16Test, ValuesAndGradientsOfRowsTooLongForTheCache) {
  // As many heads of every sort would take the reference minutes.
  const AttentionShape s = InBFloat16(GetParam(), GetParam().factors     ? Shape(1, 5, 36001, 24, 24, 24, 1, 1)
                                                  : GetParam().convolved ? Shape(1, 19, 3001, 2, 3, 4, 1, 1)
                                                                         : Shape(1, 19, 3001, 2, 280, 3, 1, 1));
  if (!s.MixesWeights()) return;  // whose rows are not kept
  EXPECT_LE(LargestError(AttentionProblem(s), 0.1), kTinyTolerance);
}

// And backward.
TEST(AttentionBFloat16LongTest, ValuesAndGradientsOfRowsTooLongToBeKept) {
  EXPECT_LE(LargestError(AttentionProblem(InBFloat16(kKinds[3], Shape(1, 11, 2401, 2, 560, 3, 1, 1)))), kTinyTolerance);
}

TEST(AttentionBFloat16SubsetsTest, EverySubsetOfTheProjections) {
  for (int subset = 0; subset < 64; ++subset) {
    AttentionShape s = Shape(1, 5, 35, 3, 4, 5, 7, 6);
    s.precision = Precision::kBFloat16;
    s.P_l = subset & 1, s.P_w = subset & 2, s.R_Xl = subset & 4, s.R_Ml = subset & 8, s.R_Xw = subset & 16;
    s.R_Mw = subset & 32;
    if (!s.MixesLogits()) s.h_k = s.h;
    if (!s.MixesWeights()) s.h_v = s.h;
    EXPECT_LE(LargestError(AttentionProblem(s), 1.0), kTinyTolerance) << Describe(s);
  }
}

// The values rounded, which they then have in float, too.
std::vector<uint16_t> RoundInPlace(Floats& values) {
  const int64_t count = static_cast<int64_t>(values.size());
  std::vector<uint16_t> rounded(values.size());
  RoundToBFloat16(count, values.data(), rounded.data());
  WidenBFloat16(count, rounded.data(), values.data());
  return rounded;
}

// The operands of products are rounded, and nothing else: inputs that bfloat16 holds give the same as those that round
// to them. The scale is a power of 2, and no mixing is there, which the normaliser would multiply before it is rounded.
TEST(AttentionBFloat16OperandsTest, InputsRoundedBeforehandGiveTheSameBits) {
  for (const Kind& kind : {kKinds[0], kKinds[6]}) {
    for (const int64_t n : {3, 41}) {
      AttentionProblem p(InBFloat16(kind, Shape(2, n, 70, 3, 3, 3, 16, 9)), {}, 0.25);
      const Results unrounded = FusedAttention(p);
      for (Floats* values : {&p.Q, &p.K, &p.V, &p.dO}) RoundInPlace(*values);
      const Results results = FusedAttention(p);
      Results::ForEach([&](const char* name, Floats Results::*member) {
        EXPECT_TRUE(SameBits(results.*member, unrounded.*member)) << name << ", " << kind.name << " n=" << n;
      });
    }
  }
}

// Q, K and V that are kept in bfloat16 are read where they lie.
TEST_P(AttentionBFloat16Test, InputsInBFloat16GiveTheBitsOfTheSameInFloat) {
  for (const std::string& target : SupportedSimdTargets()) {
    RestrictSimdTarget(target);
    for (const int64_t n : {3, 41}) {
      AttentionProblem p(InBFloat16(GetParam(), Shape(2, n, 70, 3, 4, 5, 37, 9)), {.key_padding = true}, 0.25);
      const std::vector<uint16_t> Q = RoundInPlace(p.Q), K = RoundInPlace(p.K), V = RoundInPlace(p.V);
      const Results widened = FusedAttention(p);
      p.call.Q = {Q.data(), p.call.Q.stride}, p.call.K = {K.data(), p.call.K.stride};
      p.call.V = {V.data(), p.call.V.stride};
      const Results results = FusedAttention(p);
      Results::ForEach([&](const char* name, Floats Results::*member) {
        EXPECT_TRUE(SameBits(results.*member, widened.*member)) << name << ", " << target << " n=" << n;
      });
    }
  }
  RestrictSimdTarget("");
}

// What is multiplied adds up to one: a weighted mean of ones is 1 except for roundings of float, 2^-24 for each of the
// sum and its reciprocal and for each of the chunks' 70 / 2 steps at most.
TEST(AttentionBFloat16OperandsTest, WeightsAddUpToOne) {
  for (const float logits : {1.0f, 10.0f}) {
    AttentionProblem p(InBFloat16(kKinds[0], Shape(2, 41, 70, 3, 3, 3, 16, 9)));
    for (float& q : p.Q) q *= logits;
    std::fill(p.V.begin(), p.V.end(), 1.0f);
    for (const float value : FusedAttention(p).O) EXPECT_NEAR(value, 1, 40 * 0x1p-24);
  }
}

// Logits ten times as large have ten times the error, and their weights' share of it with them.
TEST_P(AttentionBFloat16Test, LargeLogits) {
  AttentionProblem p(InBFloat16(GetParam(), Shape(1, 41, 70, 5, 6, 7, 16, 10)));
  for (float& q : p.Q) q *= 10;
  EXPECT_LE(LargestError(p), 10 * kTolerance);
}

TEST_P(AttentionBFloat16Test, QueriesThatSeeNothingOrOnePosition) {
  const AttentionShape s = InBFloat16(GetParam(), Shape(2, 9, 70, 3, 4, 5, 16, 10));
  AttentionProblem p(s, {.attention = true});
  LetQueriesSeeOnePositionOrNone(p);
  const Results r = FusedAttention(p);
  const int64_t O_row = s.h_v * s.d_v, Q_row = s.h_k * s.d_k;
  for (int64_t i = 0; i < s.b * s.n; ++i) {
    for (int64_t e = 0; e < Q_row; ++e) ASSERT_EQ(r.dQ[i * Q_row + e], 0) << "query " << i;
    for (int64_t e = 0; e < O_row; ++e) {
      const float O = r.O[i * O_row + e];
      if (i % 2 != 0) {
        ASSERT_EQ(O, 0) << "query " << i;
      }
      if (i % 2 != 0 || s.MixesWeights() || s.Convolves()) continue;
      // V of the one position, rounded.
      const int64_t V_row = p.v_heads * s.d_v;
      const float V = p.V[(i / s.n * s.m + (i * 31) % s.m) * V_row + e % V_row];
      uint16_t rounded;
      float expected;
      RoundToBFloat16(1, &V, &rounded);
      WidenBFloat16(1, &rounded, &expected);
      ASSERT_EQ(O, expected) << "query " << i;
    }
  }
}

TEST(AttentionBFloat16OperandsTest, BackwardHasTheMixedWeightsOfForwardToTheLastBit) {
  for (const int64_t n : {1, 5, 35, 65}) {
    for (const Kind& kind : {kKinds[2], kKinds[3], kKinds[4], kKinds[5]}) {
      for (const double dropout : {0.0, 0.3}) {
        ExpectForwardsMixedWeightsInBackward(InBFloat16(kind, Shape(2, n, 67, 3, 5, 4, 19, 67)), dropout);
      }
    }
  }
}

TEST(AttentionBFloat16GroupedTest, ValuesAndGradientsOfHeadsThatShareKeysAndValues) {
  AttentionShape s = InBFloat16(kKinds[0], Shape(2, 41, 70, 6, 6, 6, 16, 9));
  s.kv_heads = KvHeads::kGrouped;
  for (const int64_t g : {1, 2, 3}) {
    s.g = g;
    EXPECT_LE(LargestError(AttentionProblem(s)), kTinyTolerance);
  }
}

TEST_P(AttentionBFloat16Test, DecodingEqualsTheParallelPassToTheLastBit) {
  ExpectThatDecodingEqualsTheParallelPass(InBFloat16(GetParam(), Shape(2, 70, 70, 3, 4, 5, 11, 13)));
}

TEST_P(AttentionBFloat16Test, SameBitsOnAnyThreadsTargetAndUnit) {
  ExpectSameResults(AttentionProblem(InBFloat16(GetParam(), Shape(2, 141, 101, 3, 5, 7, 11, 13))));
  for (uint32_t i = 0; i < 8; ++i) {
    const RandomKey key{.seed = 19, .stream = StreamId(GetParam().name), .step = i};
    int draws = 0;
    const auto draw = [&](uint32_t most) {
      return 1 + static_cast<int64_t>(UniformInt(key, static_cast<uint64_t>(draws++), most));
    };
    AttentionShape s = Shape(draw(3), draw(40), draw(80), draw(14), draw(14), draw(14), draw(36), draw(36));
    s = InBFloat16(GetParam(), s);
    s.bias = static_cast<AttentionBias>(draw(3) - 1);
    s.buckets = draw(12);
    if (s.n <= s.m && draw(2) == 1) s.causality = AttentionCausality::kCausal;
    const ProblemMasks masks{.key_padding = draw(2) == 1, .attention = draw(2) == 1};
    ExpectSameResults(AttentionProblem(s, masks, draw(2) == 1 ? 0.15 : 0.0));
  }
}

// Logits that grow along the row raise the running maximum again and again, and rescale what was kept.
TEST(AttentionBFloat16OperandsTest, LogitsThatGrowAlongTheRow) {
  for (const Kind& kind : {kKinds[0], kKinds[2]}) {
    AttentionShape s = InBFloat16(kind, Shape(1, 9, 200, 3, 3, 3, 1, 3));
    AttentionProblem p(s);
    for (int64_t j = 0; j < s.m; ++j) {
      for (int64_t k = 0; k < 3; ++k) p.K[j * 3 + k] = static_cast<float>(j / 40) * 128.0f * (k == 0 ? 1.0f : -1.0f);
    }
    std::fill(p.Q.begin(), p.Q.end(), 1.0f);
    EXPECT_TRUE(testing::CloseToLargest(FusedAttention(p).O, ReferenceAttention(p).O, kTinyTolerance)) << kind.name;
    ExpectSameResults(p);
  }
}

// J, W and dW of a block's rows, and K and V packed, in half the bytes; the sums of dK and dV stay in float.
TEST(AttentionBFloat16OperandsTest, TheWorkspaceIsSmaller) {
  AttentionShape s = Talking(Shape(1, 512, 512, 24, 24, 24, 32, 32));
  const size_t forward = AttentionForwardWorkspaceBytes(s, 2), backward = AttentionBackwardWorkspaceBytes(s, 2);
  s.precision = Precision::kBFloat16;
  EXPECT_LT(static_cast<double>(AttentionForwardWorkspaceBytes(s, 2)), 0.65 * static_cast<double>(forward));
  EXPECT_LT(static_cast<double>(AttentionBackwardWorkspaceBytes(s, 2)), 0.7 * static_cast<double>(backward));
}

}  // namespace attention_bfloat16_test
}  // namespace crosstalk::kernels
