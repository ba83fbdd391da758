// The fused attention where logits are huge or far apart: its weights, forward and backward, and rows that have one
// only.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "tests/kernels/attention/attention_problem.h"
#include "tests/kernels/attention/near_reference.h"

namespace crosstalk::kernels {
namespace attention_extremes_test {

CROSSTALK_KERNEL_TEST(AttentionExtremesTest);

// Logits near 1e7 that are near each other, where a sum of another order is another weight altogether.
TEST_P(AttentionExtremesTest, BackwardHasTheWeightsOfForwardToTheLastBit) {
  const auto expect = [](AttentionShape s, const ProblemMasks& masks) {
    s.d_v = std::max(s.n, s.m);
    AttentionProblem p(s, masks);
    for (float& q : p.in.Q) q = 3000.0f + 100.0f * q;
    Floats& K = p.in.K;
    const size_t row = static_cast<size_t>(s.h_k * s.d_k);
    for (size_t i = 0; i < K.size(); ++i) {  // the first position's, within an ulp or two
      K[i] =
          i < row ? K[i] * 1000.0f : K[i % row] * (1.0f + static_cast<float>(static_cast<int>(i % 5) - 2) * 0x1p-23f);
    }
    for (size_t i = static_cast<size_t>(s.h_k * s.h); i < p.in.R_Ml.size(); ++i) {
      p.in.R_Ml[i] = p.in.R_Ml[i - s.h_k * s.h];
    }
    int64_t apart = 0;
    double largest = 0;
    ForWeightsOfBothPasses(p, [&](int64_t b, int64_t i, int64_t k, int64_t j, float forward, float backward) {
      apart += forward != 0 && forward != 1 ? 1 : 0;
      largest = std::max(largest, std::abs(double{forward} - double{backward}));
      if (s.MixesWeights()) return;
      ASSERT_EQ(forward, backward) << "b=" << b << " k=" << k << " i=" << i << " j=" << j << ", " << Describe(s);
    });
    EXPECT_LE(largest, 1e-5) << Describe(s);  // forward multiplies P_w, not W, by the rows' normalisers
    EXPECT_GT(apart, s.m > 1 ? s.n : -1) << "the weights say nothing: " << Describe(s);
  };
  for (const int64_t n : SomeOf(Sizes{35, 1, 3, 4, 5, 65})) {
    for (const int64_t m : {37, 67}) {
      const AttentionShape s = Shape(2, n, m, 3, 3, 3, 19, 1);
      expect(s, {});
      expect(s, {.attention = true});
      for (const bool dynamic : {false, true}) {
        AttentionShape mixed = Shape(2, n, m, 3, 5, 5, 19, 1);
        mixed.P_l = true;
        mixed.R_Xl = mixed.R_Ml = dynamic;
        mixed.bias = dynamic ? AttentionBias::kDense : AttentionBias::kNone;
        expect(mixed, {});
        mixed.P_w = true;
        mixed.R_Mw = dynamic;
        mixed.causality = n <= m ? AttentionCausality::kCausal : AttentionCausality::kNone;
        expect(mixed, {.key_padding = true});
      }
    }
  }
}

// A weight of 1 has no gradient: whatever the rounding of dW and of D, none of it gets to dQ, times keys of any size.
TEST_P(AttentionExtremesTest, ARowOfOneWeightPassesNoGradientToItsLogits) {
  for (const double dropout : {0.0, 0.3}) {
    for (const bool weights : {false, true}) {
      for (const int64_t n : {3, 35}) {
        AttentionShape s = Shape(2, n, 67, 3, 3, 3, 11, 37);
        s.P_w = weights;
        s.bias = AttentionBias::kDense;
        AttentionProblem p(s, {}, dropout);
        for (Floats* values : {&p.in.K, &p.in.Q}) {
          for (float& value : *values) value *= 1e15f;
        }
        const AttentionResults<float> r = FusedAttention(p);
        for (const Floats* gradient : {&r.d.Q, &r.d.K, &r.d.bias}) {
          for (const float value : *gradient) ASSERT_EQ(value, 0) << Describe(s);
        }
        for (const float value : r.O) ASSERT_TRUE(std::isfinite(value));
      }
    }
  }
}

// The second of two positions: its weight, and through its value the result and every gradient, as small as e^-80.
TEST_P(AttentionExtremesTest, SmallWeightsKeepTheirDigits) {
  for (const float gap : {1.0f, 9.5f, 17.0f, 30.0f, 61.0f, 80.0f}) {
    for (const int64_t n : {3, 9}) {
      for (const bool weights : {false, true}) {
        AttentionShape s = Shape(1, n, 2, 1, 1, 1, 1, 1);
        s.P_w = weights;
        AttentionProblem p(s);
        for (Floats* values : {&p.in.Q, &p.in.P_w, &p.dO}) std::fill(values->begin(), values->end(), 1.0f);
        p.in.K = {0.0f, -gap};
        p.in.V = {0.0f, 1.0f};
        p.Bind();
        const AttentionResults<float> r = FusedAttention(p);
        const double small = std::exp(-double{gap}) / (1 + std::exp(-double{gap}));
        for (const float value : r.O) EXPECT_NEAR(value / small, 1, 1e-5) << gap;
        // dL = W · (dW - D) of the second position, whose dW is 1; its key is -gap.
        const double dL = small * (1 - small);
        for (const float value : r.d.Q) EXPECT_NEAR(value / (-gap * dL), 1, 1e-5) << gap;
        EXPECT_NEAR(r.d.K[1] / (dL * static_cast<double>(n)), 1, 1e-5) << gap;
        EXPECT_NEAR(r.d.V[1] / (small * static_cast<double>(n)), 1, 1e-5) << gap;
      }
    }
  }
}

// Far below 0, yet not masked.
TEST_P(AttentionExtremesTest, LogitsOfAnySizeBelowZeroCount) {
  for (const float size : {1e25f, 1e30f, 1e32f, 9e37f}) {
    for (const bool talking : {false, true}) {
      AttentionShape s = Shape(2, 70, 70, 2, 2, 2, 1, 3);
      s.P_l = s.P_w = talking;
      s.causality = AttentionCausality::kCausal;
      AttentionProblem p(s, {.key_padding = true});
      for (float& q : p.in.Q) q = 1.0f;
      for (size_t i = 0; i < p.in.K.size(); ++i) p.in.K[i] = -size * (1.0f - 0.001f * static_cast<float>(i / 2 % 7));
      for (size_t i = 0; i < p.in.P_l.size(); ++i) p.in.P_l[i] = i % 3 == 0 ? 1.0f : 0.0f;
      const AttentionResults<float> actual = FusedAttention(p);
      EXPECT_TRUE(AllClose(actual.O, ReferenceAttention(p).O, {1e-5, 0})) << size << (talking ? ", talking" : "");
      for (const float value : actual.d.Q) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

// A rising sequence of logits makes the running maximum of every row rise too, again and again, and rescale what was
// kept. In bfloat16 a difference of gradients is not told from its rounding.
TEST(AttentionGrowingLogitsTest, AreNearTheReference) {
  for (const auto& [logits, weights] : {std::pair{false, false}, {false, true}, {true, true}}) {
    AttentionShape s = Shape(1, 9, 200, 2, 2, 2, 1, 3);
    s.P_l = logits;
    s.P_w = weights;
    AttentionProblem p(s);
    for (size_t i = 0; i < p.in.K.size(); ++i) {
      p.in.K[i] = static_cast<float>(i / 2 / 40) * 128.0f * (i % 2 == 0 ? 1.0f : -1.0f);
    }
    for (float& q : p.in.Q) q = 1.0f;
    const AttentionResults<double> expected = ReferenceAttention(p);
    ExpectNearOnEveryTarget(p, expected, 512.0);  // the keys'
    p.call.shape.precision = Precision::kBFloat16;
    ExpectNearOnEveryTarget(p, expected, 512.0);
    EXPECT_TRUE(logits || CloseToLargest(FusedAttention(p).O, expected.O, kTinyTolerance));
  }
}

// Logits of any magnitude, weights of 1 and of 0: the same bits on all targets that fuse multiply-adds.
CROSSTALK_ATTENTION_TEST(AttentionMagnitudesTest);
TEST_P(AttentionMagnitudesTest, HaveTheSameBitsOnEveryTarget) {
  for (const float magnitude : {1e-30f, 30.0f, 1e3f, 1e8f, 1e15f}) {
    for (const int64_t n : {3, 19}) {
      AttentionProblem p(OfKind(GetParam(), Shape(2, n, 133, 3, 5, 7, 11, 13)));
      for (float& q : p.in.Q) q *= magnitude;
      for (size_t i = 0; i < p.in.K.size(); ++i) p.in.K[i] *= 1 + static_cast<float>(i) / 1000;
      const AttentionResults<float> expected = FusedAttention(p);
      for (const std::string& target : SupportedSimdTargets()) {
        RestrictSimdTarget(target);
        ExpectSameBits(FusedAttention(p), expected, StrCat(target, ", logits of ", magnitude, ", ", GetParam().name));
      }
      RestrictSimdTarget("");
    }
  }
}

}  // namespace attention_extremes_test
}  // namespace crosstalk::kernels
