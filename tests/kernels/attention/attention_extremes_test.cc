// The fused attention where logits are huge: its weights, forward and backward, and rows that have one only.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/simd.h"
#include "tests/kernels/attention/attention_problem.h"

namespace crosstalk::kernels {
namespace attention_extremes_test {

// With V and dO the identity (d_v = n = m at least) O is U as forward has it, and dV is U as backward computes it
// again. Logits near 1e7 that are near each other, where a sum of another order is another weight altogether.
TEST(AttentionExtremesTest, BackwardHasTheWeightsOfForwardToTheLastBit) {
  const auto expect = [](AttentionShape s, const ProblemMasks& masks) {
    s.d_v = std::max(s.n, s.m);
    AttentionProblem p(s, masks);
    for (float& q : p.Q) q = 3000.0f + 100.0f * q;
    for (int64_t i = s.h_k * s.d_k; i < s.b * s.m * s.h_k * s.d_k; ++i) {  // the first position's, within an ulp or two
      const float first = p.K[static_cast<size_t>(i % (s.h_k * s.d_k))] * 1000.0f;
      p.K[static_cast<size_t>(i)] = first * (1.0f + static_cast<float>(i % 5 - 2) * 0x1p-23f);
    }
    for (int64_t i = 0; i < s.h_k * s.d_k; ++i) p.K[static_cast<size_t>(i)] *= 1000.0f;
    for (size_t i = static_cast<size_t>(s.h_k * s.h); i < p.R_Ml.size(); ++i) p.R_Ml[i] = p.R_Ml[i - s.h_k * s.h];
    const auto identity = [&](Floats& values, int64_t positions, int64_t heads) {
      for (size_t i = 0; i < values.size(); ++i) {
        const int64_t at = static_cast<int64_t>(i), position = at / (heads * s.d_v) % positions;
        values[i] = at % s.d_v == position ? 1.0f : 0.0f;
      }
    };
    identity(p.V, s.m, p.v_heads);
    identity(p.dO, s.n, s.h_v);
    const AttentionResults<float> r = FusedAttention(p);
    int64_t apart = 0;
    double largest = 0;
    for (int64_t b = 0; b < s.b; ++b) {
      for (int64_t i = 0; i < s.n; ++i) {
        for (int64_t k = 0; k < s.h_v; ++k) {
          for (int64_t j = 0; j < s.m; ++j) {
            const float forward = r.O[static_cast<size_t>(((b * s.n + i) * s.h_v + k) * s.d_v + j)];
            const float backward = r.dV[static_cast<size_t>(((b * s.m + j) * s.h_v + k) * s.d_v + i)];
            apart += forward != 0 && forward != 1 ? 1 : 0;
            largest = std::max(largest, std::abs(double{forward} - double{backward}));
            if (!s.MixesWeights()) {
              ASSERT_EQ(forward, backward) << "b=" << b << " k=" << k << " i=" << i << " j=" << j << ", " << Describe(s)
                                           << " on " << SimdTargetName();
            }
          }
        }
      }
    }
    // Forward multiplies P_w, not W, by the rows' normalisers.
    EXPECT_LE(largest, 1e-5) << Describe(s) << " on " << SimdTargetName();
    EXPECT_GT(apart, s.m > 1 ? s.n : -1) << "the weights say nothing: " << Describe(s);
  };
  for (const std::string& target : SupportedSimdTargets()) {
    RestrictSimdTarget(target);
    for (const int64_t n : {1, 3, 4, 5, 35, 65}) {
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
  RestrictSimdTarget("");
}

// A weight of 1 has no gradient: whatever the rounding of dW and of D, none of it gets to dQ, times keys of any size.
TEST(AttentionExtremesTest, ARowOfOneWeightPassesNoGradientToItsLogits) {
  for (const std::string& target : SupportedSimdTargets()) {
    RestrictSimdTarget(target);
    for (const double dropout : {0.0, 0.3}) {
      for (const bool weights : {false, true}) {
        for (const int64_t n : {3, 35}) {
          AttentionShape s = Shape(2, n, 67, 3, 3, 3, 11, 37);
          s.P_w = weights;
          s.bias = AttentionBias::kDense;
          AttentionProblem p(s, {}, dropout);
          for (float& k : p.K) k *= 1e15f;
          for (float& q : p.Q) q *= 1e15f;
          const AttentionResults<float> r = FusedAttention(p);
          for (const Floats* gradient : {&r.dQ, &r.dK, &r.dbias}) {
            for (const float value : *gradient) ASSERT_EQ(value, 0) << Describe(s) << " on " << SimdTargetName();
          }
          for (const float value : r.O) ASSERT_TRUE(std::isfinite(value));
        }
      }
    }
  }
  RestrictSimdTarget("");
}

// Of two positions: the second's weight, and through its value the result and every gradient, as small as e^-80.
TEST(AttentionExtremesTest, SmallWeightsKeepTheirDigits) {
  for (const std::string& target : SupportedSimdTargets()) {
    RestrictSimdTarget(target);
    for (const float gap : {1.0f, 9.5f, 17.0f, 30.0f, 61.0f, 80.0f}) {
      for (const int64_t n : {3, 9}) {
        for (const bool weights : {false, true}) {
          AttentionShape s = Shape(1, n, 2, 1, 1, 1, 1, 1);
          s.P_w = weights;
          AttentionProblem p(s);
          std::fill(p.Q.begin(), p.Q.end(), 1.0f);
          std::fill(p.P_w.begin(), p.P_w.end(), 1.0f);
          std::fill(p.dO.begin(), p.dO.end(), 1.0f);
          p.K = {0.0f, -gap};
          p.V = {0.0f, 1.0f};
          p.call.K = {p.K.data(), p.call.K.stride};
          p.call.V = {p.V.data(), p.call.V.stride};
          const AttentionResults<float> r = FusedAttention(p);
          const double small = std::exp(-double{gap}) / (1 + std::exp(-double{gap}));
          for (const float value : r.O) EXPECT_NEAR(value / small, 1, 1e-5) << gap << " on " << target;
          // dL = W · (dW - D) of the second position, whose dW is 1; its key is -gap.
          const double dL = small * (1 - small);
          for (const float value : r.dQ) EXPECT_NEAR(value / (-gap * dL), 1, 1e-5) << gap << " on " << target;
          EXPECT_NEAR(r.dK[1] / (dL * static_cast<double>(n)), 1, 1e-5) << gap << " on " << target;
          EXPECT_NEAR(r.dV[1] / (small * static_cast<double>(n)), 1, 1e-5) << gap << " on " << target;
        }
      }
    }
  }
  RestrictSimdTarget("");
}

// Far below 0, yet not masked.
TEST(AttentionExtremesTest, LogitsOfAnySizeBelowZeroCount) {
  for (const float size : {1e25f, 1e30f, 1e32f, 9e37f}) {
    for (const bool talking : {false, true}) {
      AttentionShape s = Shape(2, 9, 70, 2, 2, 2, 1, 3);
      s.P_l = s.P_w = talking;
      s.n = s.m = 70;
      s.causality = AttentionCausality::kCausal;
      AttentionProblem p(s, {.key_padding = true});
      for (float& q : p.Q) q = 1.0f;
      for (size_t i = 0; i < p.K.size(); ++i) p.K[i] = -size * (1.0f - 0.001f * static_cast<float>(i / 2 % 7));
      for (size_t i = 0; i < p.P_l.size(); ++i) p.P_l[i] = i % 3 == 0 ? 1.0f : 0.0f;
      const AttentionResults<double> expected = ReferenceAttention(p);
      const AttentionResults<float> actual = FusedAttention(p);
      for (size_t i = 0; i < expected.O.size(); ++i) {
        ASSERT_NEAR(actual.O[i], expected.O[i], 1e-5) << i << " at " << size << (talking ? ", talking" : "");
      }
      for (const float value : actual.dQ) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

}  // namespace attention_extremes_test
}  // namespace crosstalk::kernels
