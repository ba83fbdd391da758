// The fused attention against kernels/reference in double: every member of the family, every SIMD target, sizes around
// the borders of tiles and vectors.
#include "crosstalk/kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "crosstalk/kernels/rows.h"
#include "crosstalk/kernels/simd.h"
#include "crosstalk/runtime/parallel.h"
#include "tests/kernels/attention/attention_kinds.h"
#include "tests/kernels/attention/attention_problem.h"

namespace crosstalk::kernels {
namespace attention_test {

// Each result is a chain of sums of at most a few hundred terms and one exp of a logit below 32: roundings of 2^-24
// relative to the largest terms, times the growth along the chain.
constexpr double kTolerance = 2e-5;

// `smallest`: used as the largest magnitude of a result that is smaller, because its terms cancel (with one
// memory position every dL is 0).
void ExpectEqual(const AttentionProblem& p, double smallest = 0.1) {
  const AttentionResults<double> expected = ReferenceAttention(p);
  const AttentionResults<float> actual = FusedAttention(p);
  using E = AttentionResults<double>;
  std::vector<std::pair<const char*, const std::vector<double>*>> want;
  E::ForEach([&](const char* name, std::vector<double> E::*member) { want.push_back({name, &(expected.*member)}); });
  size_t next = 0;
  AttentionResults<float>::ForEach([&](const char*, Floats AttentionResults<float>::*member) {
    const auto& [name, values] = want[next++];
    double largest = 0, worst = 0;
    size_t where = 0;
    for (const double v : *values) largest = std::max(largest, std::abs(v));
    for (size_t i = 0; i < values->size(); ++i) {
      const double error = std::abs((actual.*member)[i] - (*values)[i]);
      if (!(error <= worst)) {
        worst = error;
        where = i;
      }
      if (std::isnan(error)) break;
    }
    if (values->empty()) return;
    EXPECT_LE(worst, kTolerance * std::max(largest, smallest))
        << name << "[" << where << "] of " << values->size() << " = " << (actual.*member)[where] << ", not "
        << (*values)[where] << ", " << Describe(p.call.shape) << " on " << SimdTargetName();
  });
}

void ExpectEqualOnEveryTarget(const AttentionProblem& p) {
  for (const std::string& target : SupportedSimdTargets()) {
    RestrictSimdTarget(target);
    ExpectEqual(p);
  }
  RestrictSimdTarget("");
}

TEST(AttentionTest, TalkingHeadsWithEveryDimensionDistinct) {
  ExpectEqualOnEveryTarget(AttentionProblem(Talking(Shape(2, 19, 37, 3, 5, 7, 11, 13))));
}

TEST(AttentionTest, MultiHead) { ExpectEqualOnEveryTarget(AttentionProblem(Shape(2, 19, 37, 5, 5, 5, 11, 13))); }

TEST(AttentionTest, LogitsOnlyAndWeightsOnly) {
  AttentionShape s = Shape(2, 19, 37, 3, 5, 5, 11, 13);
  s.P_l = true;
  ExpectEqualOnEveryTarget(AttentionProblem(s));
  s = Shape(2, 19, 37, 5, 5, 3, 11, 13);
  s.P_w = true;
  ExpectEqualOnEveryTarget(AttentionProblem(s));
}

TEST(AttentionTest, SizesAroundTheBordersOfTilesAndVectors) {
  for (const int64_t n : {1, 7, 8, 9, 33, 65}) {
    for (const int64_t m : {1, 15, 31, 32, 33, 65}) {
      ExpectEqual(AttentionProblem(Talking(Shape(1, n, m, 2, 3, 4, 2, 3))));
      ExpectEqual(AttentionProblem(Shape(1, n, m, 3, 3, 3, 2, 3)));
    }
  }
  for (const int64_t d : {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64}) {
    ExpectEqual(AttentionProblem(Talking(Shape(1, 9, 33, 2, 3, 4, d, d + 1))));
  }
  for (const int64_t h : {1, 2, 6, 7, 11, 12, 13, 24, 25, 48}) {
    ExpectEqual(AttentionProblem(Talking(Shape(1, 9, 33, h, h + 1, h + 2, 3, 2))));
  }
}

TEST(AttentionTest, ManySmallHeads) {
  ExpectEqualOnEveryTarget(AttentionProblem(Talking(Shape(1, 5, 35, 48, 48, 48, 16, 16))));
  ExpectEqual(AttentionProblem(Shape(1, 3, 5, 768, 768, 768, 1, 1)));
  AttentionShape s = Shape(1, 2, 3, 768, 768, 768, 1, 1);
  s.P_l = true;
  ExpectEqual(AttentionProblem(s));
}

TEST(AttentionTest, MasksOfEveryKindAndQueriesThatSeeNothing) {
  for (const bool talking : {false, true}) {
    for (const AttentionCausality causality : {AttentionCausality::kNone, AttentionCausality::kCausal}) {
      for (const ProblemMasks masks :
           {ProblemMasks{}, {.key_padding = true}, {.attention = true}, {.key_padding = true, .attention = true}}) {
        AttentionShape s = Shape(2, 41, 70, 3, 3, 3, 2, 3);
        s.P_l = s.P_w = talking;
        s.causality = causality;
        ExpectEqual(AttentionProblem(s, masks));
        s.n = s.m = 70;
        ExpectEqual(AttentionProblem(s, masks));
      }
    }
  }
  AttentionShape s = Talking(Shape(3, 41, 70, 3, 4, 5, 5, 6));
  s.causality = AttentionCausality::kCausal;
  ExpectEqualOnEveryTarget(AttentionProblem(s, {.key_padding = true, .attention = true}));
}

// The last position that a tile's last query sees lies on either side of a chunk's border, and so does its first's.
TEST(AttentionTest, CausalWhereTheDiagonalMeetsTheBordersOfChunks) {
  for (const int64_t m : {1, 8, 31, 32, 33, 64, 65, 97}) {
    for (const int64_t n : {int64_t{1}, int64_t{5}, int64_t{9}, int64_t{32}, int64_t{33}, m - 1, m}) {
      if (n < 1 || n > m) continue;
      for (const bool talking : {false, true}) {
        AttentionShape s = Shape(1, n, m, 3, 3, 3, 2, 3);
        s.P_l = s.P_w = talking;
        s.causality = AttentionCausality::kCausal;
        ExpectEqual(AttentionProblem(s), 1.0);
      }
    }
  }
}

TEST(AttentionTest, BiasDenseAndByRelativePosition) {
  for (const bool talking : {false, true}) {
    for (const AttentionBias bias : {AttentionBias::kDense, AttentionBias::kRelativePosition}) {
      AttentionShape s = Shape(3, 41, 70, 3, 3, 3, 5, 6);
      s.P_l = s.P_w = talking;
      s.bias = bias;
      s.buckets = 7;
      ExpectEqualOnEveryTarget(AttentionProblem(s));
      s.causality = AttentionCausality::kCausal;
      ExpectEqual(AttentionProblem(s, {.key_padding = true}));
    }
  }
}

TEST(AttentionTest, DropoutIsThatOfU) {
  for (const int64_t m : {33, 36}) {
    for (const bool talking : {false, true}) {
      AttentionShape s = Shape(2, 19, m, 5, 5, 5, 11, 13);
      s.P_l = s.P_w = talking;
      ExpectEqualOnEveryTarget(AttentionProblem(s, {}, 0.3));
    }
  }
}

TEST(AttentionTest, EverySubsetOfTheDynamicProjections) {
  for (int subset = 0; subset < 64; ++subset) {
    AttentionShape s = Shape(1, 5, 35, 3, 4, 5, 3, 2);
    s.P_l = subset & 1, s.P_w = subset & 2, s.R_Xl = subset & 4, s.R_Ml = subset & 8, s.R_Xw = subset & 16;
    s.R_Mw = subset & 32;
    if (!s.MixesLogits()) s.h_k = s.h;
    if (!s.MixesWeights()) s.h_v = s.h;
    ExpectEqual(AttentionProblem(s));
  }
  AttentionShape s = Talking(Shape(2, 11, 37, 3, 4, 5, 5, 6));
  s.R_Xl = s.R_Ml = s.R_Xw = s.R_Mw = true;
  ExpectEqualOnEveryTarget(AttentionProblem(s, {.key_padding = true, .attention = true}, 0.2));
}

AttentionShape Convolved(AttentionShape s, int64_t c_ql, int64_t c_kl, int64_t c_qw, int64_t c_kw) {
  s.c_ql = c_ql, s.c_kl = c_kl, s.c_qw = c_qw, s.c_kw = c_kw;
  return s;
}

AttentionShape WithFactors(AttentionShape s, bool logits = true, bool weights = true) {
  s.F_Xl = s.F_Ml = logits;
  s.F_Xw = s.F_Mw = weights;
  return s;
}

TEST(AttentionTest, FactorsOfLogitsAndOfWeightsBesideEveryOtherMixing) {
  for (int subset = 0; subset < 64; ++subset) {
    AttentionShape s = WithFactors(Shape(1, 5, 35, 3, 3, 3, 3, 2), subset % 3 != 1, subset % 3 != 2);
    s.P_l = subset & 1, s.P_w = subset & 2, s.R_Xl = subset & 4, s.R_Ml = subset & 8, s.R_Xw = subset & 16;
    s.R_Mw = subset & 32;
    ExpectEqual(AttentionProblem(s));
  }
  for (const int64_t h : {1, 2, 5, 12, 17}) {
    for (const auto& [n, m] : {std::pair<int64_t, int64_t>{1, 37}, {3, 1}, {4, 65}, {9, 33}, {41, 70}}) {
      AttentionShape s = WithFactors(Shape(2, n, m, h, h, h, 5, 6));
      ExpectEqualOnEveryTarget(AttentionProblem(s, {.key_padding = true, .attention = true}, 0.2));
      s.causality = AttentionCausality::kCausal;
      s.bias = AttentionBias::kDense;
      if (n <= m) ExpectEqual(AttentionProblem(s, {.key_padding = true}));
    }
  }
  // With so long a memory rows are not kept and tiles are computed twice.
  ExpectEqual(AttentionProblem(WithFactors(Shape(1, 5, 36600, 12, 12, 12, 2, 2))), 1.0);
}

TEST(AttentionTest, FactorsKeepTheNumberOfHeadsAndComeInPairs) {
  const auto refuses = [](const AttentionShape& s) { EXPECT_THROW(AttentionForwardWorkspaceBytes(s, 1), Error); };
  refuses(WithFactors(Talking(Shape(1, 5, 7, 3, 4, 4, 2, 2))));
  refuses(WithFactors(Talking(Shape(1, 5, 7, 4, 4, 3, 2, 2))));
  AttentionShape s = WithFactors(Shape(1, 5, 7, 4, 4, 4, 2, 2));
  s.F_Ml = false;
  refuses(s);
}

TEST(AttentionTest, ConvolutionsOfLogitsAndOfWeights) {
  for (const auto& [n, m] : {std::pair<int64_t, int64_t>{1, 1}, {5, 37}, {71, 75}}) {
    for (const bool mixes : {false, true}) {
      AttentionShape s = mixes ? Talking(Shape(2, n, m, 3, 5, 4, 5, 6)) : Shape(2, n, m, 3, 3, 3, 5, 17);
      for (const AttentionShape& c : {Convolved(s, 6, 11, 6, 11), Convolved(s, 3, 4, 0, 0), Convolved(s, 0, 0, 2, 7),
                                      Convolved(s, 1, 5, 4, 1), Convolved(s, 8, 19, 5, 2)}) {
        ExpectEqual(AttentionProblem(c), 1.0);
      }
      s = Convolved(s, 6, 11, 3, 5);
      s.bias = AttentionBias::kRelativePosition;
      s.buckets = 5;
      ExpectEqualOnEveryTarget(AttentionProblem(s, {.key_padding = true, .attention = true}, 0.2));
      s.bias = AttentionBias::kDense;
      s.causality = AttentionCausality::kCausal;
      ExpectEqualOnEveryTarget(AttentionProblem(s, {.key_padding = true}, 0.1));
    }
    AttentionShape s = Convolved(Shape(2, n, m, 3, 3, 3, 5, 6), 2, 3, 4, 5);
    s.kv_heads = KvHeads::kMultiQuery;
    ExpectEqual(AttentionProblem(s), 1.0);
    s = Convolved(Shape(2, n, m, 3, 5, 5, 5, 6), 2, 3, 4, 5);
    s.P_l = true;
    ExpectEqual(AttentionProblem(s), 1.0);
    s.P_l = false, s.P_w = true, s.h_k = 5;
    ExpectEqual(AttentionProblem(s), 1.0);
  }
  // Three strips.
  ExpectEqual(AttentionProblem(Convolved(Talking(Shape(1, 133, 133, 3, 5, 4, 5, 6)), 6, 11, 6, 11)), 1.0);
}

TEST(AttentionTest, NoKernelForConvolutionsBesideDynamicProjections) {
  const auto refuses = [](const AttentionShape& s) { EXPECT_THROW(AttentionForwardWorkspaceBytes(s, 1), Error); };
  AttentionShape s = Convolved(Talking(Shape(1, 5, 7, 3, 3, 3, 2, 2)), 2, 3, 4, 5);
  EXPECT_TRUE(IsSupported(s));
  s.R_Xl = true;
  EXPECT_FALSE(IsSupported(s));
  refuses(s);
  refuses(WithFactors(Convolved(Shape(1, 5, 7, 3, 3, 3, 2, 2), 2, 3, 0, 0)));
  refuses(Convolved(Shape(1, 5, 7, 3, 3, 3, 2, 2), 2, 0, 0, 0));
}

TEST(AttentionTest, GradientsThatNobodyWantsMayBeNull) {
  for (const AttentionBias bias : {AttentionBias::kDense, AttentionBias::kRelativePosition}) {
    AttentionShape s = Talking(Shape(2, 41, 37, 3, 4, 5, 5, 6));
    s.R_Xl = s.R_Ml = s.R_Xw = s.R_Mw = true;
    s.bias = bias;
    s.buckets = 3;
    const AttentionProblem p(s);
    const AttentionResults<float> all = FusedAttention(p), inputs = FusedAttention(p, WantedResults::kInputs);
    EXPECT_EQ(inputs.dQ, all.dQ);
    EXPECT_EQ(inputs.dK, all.dK);
    EXPECT_EQ(inputs.dV, all.dV);
  }
}

TEST(AttentionTest, HeadsThatShareKeysAndValues) {
  AttentionShape s = Shape(2, 19, 37, 5, 5, 5, 11, 13);
  s.kv_heads = KvHeads::kMultiQuery;
  ExpectEqualOnEveryTarget(AttentionProblem(s));
  s.bias = AttentionBias::kRelativePosition;
  s.buckets = 3;
  ExpectEqual(AttentionProblem(s, {.key_padding = true}, 0.1));
  s.bias = AttentionBias::kDense;
  ExpectEqual(AttentionProblem(s, {.key_padding = true}, 0.1));
}

TEST(AttentionTest, GroupsOfHeadsThatShareKeysAndValues) {
  for (const auto& [h, g] : {std::pair<int64_t, int64_t>{6, 1}, {6, 2}, {6, 3}, {5, 5}}) {
    for (const int64_t n : {1, 3, 19, 135}) {
      AttentionShape s = Shape(2, n, 137, h, h, h, 11, 13);
      s.kv_heads = KvHeads::kGrouped;
      s.g = g;
      ExpectEqualOnEveryTarget(AttentionProblem(s));
      ExpectEqual(AttentionProblem(Convolved(s, 2, 3, 4, 5)), 1.0);
      s.bias = AttentionBias::kDense;
      s.causality = AttentionCausality::kCausal;
      ExpectEqual(AttentionProblem(s, {.key_padding = true}, 0.1));
    }
  }
  AttentionShape s = Shape(1, 5, 7, 6, 6, 6, 2, 2);
  s.kv_heads = KvHeads::kGrouped;
  for (const int64_t g : {0, 4, 12}) {
    s.g = g;
    EXPECT_THROW(AttentionForwardWorkspaceBytes(s, 1), Error);
  }
}

// A few queries, as in decoding, read K and V in place.
TEST(AttentionTest, FewQueriesOfEveryKind) {
  for (const int64_t n : {1, 3, 4, 5}) {
    AttentionShape s = Talking(Shape(2, n, 37, 3, 4, 5, 17, 18));
    s.causality = AttentionCausality::kCausal;
    ExpectEqualOnEveryTarget(AttentionProblem(s, {.key_padding = true, .attention = true}, 0.2));
    s.R_Xl = s.R_Ml = s.R_Xw = s.R_Mw = true;
    s.bias = AttentionBias::kRelativePosition;
    s.buckets = 3;
    ExpectEqual(AttentionProblem(s), 1.0);  // a bucket's terms cancel
    s = Shape(2, n, 37, 3, 3, 3, 17, 18);
    s.bias = AttentionBias::kDense;
    ExpectEqual(AttentionProblem(s, {.key_padding = true}));
    s.kv_heads = KvHeads::kMultiQuery;
    ExpectEqual(AttentionProblem(s));
  }
}

// So many heads that a block is cut into several tiles.
TEST(AttentionTest, BlocksOfSeveralTiles) {
  AttentionShape s = Talking(Shape(1, 37, 35, 1, 130, 2, 2, 3));
  s.causality = AttentionCausality::kCausal;
  s.n = s.m;
  ExpectEqualOnEveryTarget(AttentionProblem(s, {.key_padding = true}));
  s.P_w = false;
  s.h_v = s.h;
  ExpectEqual(AttentionProblem(s, {}, 0.1));
}

// Rows too long to be kept, forward or backward: the least number of queries passes the limits of the plan. A block
// then has several tiles.
TEST(AttentionTest, RowsTooLongForTheCache) {
  AttentionShape s = Talking(Shape(1, 19, 4801, 2, 140, 2, 1, 1));
  ExpectEqual(AttentionProblem(s));
  s = Talking(Shape(1, 9, 4801, 2, 140, 3, 1, 1));
  s.R_Mw = s.R_Xl = true;
  s.causality = AttentionCausality::kCausal;
  ExpectEqual(AttentionProblem(s, {.key_padding = true, .attention = true}, 0.2));
}

// A bias of which every e^bias overflows is as good as none: softmax takes it out. n does not fill its tiles, whose
// last rows have a distance too.
TEST(AttentionTest, AnEvenBiasOfAnySizeChangesNothing) {
  for (const float bias : {89.0f, 266.5f, 1e6f}) {
    for (const bool talking : {false, true}) {
      AttentionShape s = Shape(1, 5, 37, 3, 3, 3, 4, 7);
      s.P_l = s.P_w = talking;
      s.bias = AttentionBias::kRelativePosition;
      s.buckets = 2;
      AttentionProblem p(s);
      // Small enough for the rounding of logit + bias not to show.
      std::fill(p.Q.begin(), p.Q.end(), 0.0f);
      std::fill(p.bias_table.begin(), p.bias_table.end(), bias);
      ExpectEqualOnEveryTarget(p);
    }
  }
}

// What the bias holds where the mask forbids has no effect, not even by its size.
TEST(AttentionTest, TheMaskStandsAboveAnyBias) {
  for (const bool talking : {false, true}) {
    AttentionShape s = Shape(2, 5, 37, 3, 3, 3, 4, 7);
    s.P_l = s.P_w = talking;
    s.bias = AttentionBias::kDense;
    AttentionProblem p(s);
    for (int64_t b = 0; b < s.b; ++b) {
      for (int64_t j = 0; j < s.m; ++j) p.key_padding_mask.push_back(j % 3 != 0);
    }
    p.call.key_padding_mask = p.key_padding_mask.data();
    const AttentionResults<float> expected = FusedAttention(p);
    for (const float bias : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max(),
                             -std::numeric_limits<float>::infinity(), std::nanf("")}) {
      for (int64_t i = 0; i < s.h * s.n * s.m; ++i) {
        if (i % s.m % 3 == 0) p.bias[static_cast<size_t>(i)] = bias;
      }
      const AttentionResults<float> results = FusedAttention(p);
      EXPECT_EQ(results.O, expected.O) << bias;
      EXPECT_EQ(results.dK, expected.dK) << bias;
      EXPECT_EQ(results.dbias, expected.dbias) << bias;
    }
  }
}

// An additive mask gives what the mask gives, to the last bit: whole rows, whole chunks, and parts of them. A
// convolution reads hidden logits all the same; there the reference says what is right.
TEST(AttentionTest, ABiasFarBelowEveryLogitHidesAsTheMaskDoes) {
  for (const Kind& kind : kKinds) {
    AttentionShape s = OfKind(kind, Shape(1, 7, 70, 3, 4, 5, 4, 7));
    s.bias = AttentionBias::kDense;
    for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
      s.precision = precision;
      AttentionProblem p(s), masked(s);
      const auto hides = [&](int64_t query, int64_t position) {
        return query % 3 == 0 || (query % 3 == 1 && position < 40) || position % 4 == 0;
      };
      for (int64_t i = 0; i < s.n; ++i) {
        for (int64_t j = 0; j < s.m; ++j) masked.attention_mask.push_back(!hides(i, j));
      }
      masked.call.attention_mask = masked.attention_mask.data();
      const AttentionResults<float> expected = FusedAttention(masked);
      for (const float hidden :
           {kHiddenLogit, std::numeric_limits<float>::lowest(), -std::numeric_limits<float>::infinity()}) {
        SCOPED_TRACE(StrCat(kind.name, ", ", hidden, precision == Precision::kFloat32 ? "" : ", bfloat16"));
        for (int64_t i = 0; i < s.h * s.n * s.m; ++i) {
          if (hides(i / s.m % s.n, i % s.m)) p.bias[static_cast<size_t>(i)] = hidden;
        }
        if (kind.convolved) {
          if (precision == Precision::kFloat32) ExpectEqual(p, 1.0);
          continue;
        }
        const AttentionResults<float> results = FusedAttention(p);
        AttentionResults<float>::ForEach([&](const char* name, Floats AttentionResults<float>::*member) {
          EXPECT_EQ(results.*member, expected.*member) << name;
        });
      }
    }
  }
}

// A rising sequence of logits makes the running maximum of every row rise too, again and again.
TEST(AttentionTest, LogitsThatGrowAlongTheRow) {
  for (const auto& [logits, weights] : {std::pair{false, false}, {false, true}, {true, true}}) {
    AttentionShape s = Shape(1, 9, 200, 2, 2, 2, 1, 3);
    s.P_l = logits;
    s.P_w = weights;
    AttentionProblem p(s);
    for (int64_t j = 0; j < s.m; ++j) {
      for (int64_t k = 0; k < 2; ++k) p.K[j * 2 + k] = static_cast<float>(j / 40) * 100.0f * (k == 0 ? 1.0f : -1.0f);
    }
    for (float& q : p.Q) q = 1.0f;
    ExpectEqual(p, 400.0);  // the keys'
  }
}

TEST(AttentionTest, InputsInPlaceOfAFusedProjection) {
  const AttentionShape s = Talking(Shape(2, 19, 19, 3, 5, 3, 4, 4));
  AttentionProblem p(s);
  const AttentionResults<float> apart = FusedAttention(p);
  const int64_t width = 36 + 5;
  Floats fused(static_cast<size_t>(s.b * s.n * width), std::nanf(""));
  for (int64_t i = 0; i < s.b * s.n; ++i) {
    std::copy_n(p.Q.data() + i * 12, 12, fused.data() + i * width);
    std::copy_n(p.K.data() + i * 12, 12, fused.data() + i * width + 12);
    std::copy_n(p.V.data() + i * 12, 12, fused.data() + i * width + 24);
  }
  p.call.Q = {fused.data(), width};
  p.call.K = {fused.data() + 12, width};
  p.call.V = {fused.data() + 24, width};
  const AttentionResults<float> together = FusedAttention(p);
  EXPECT_EQ(apart.O, together.O);
  EXPECT_EQ(apart.dK, together.dK);
}

// Batch rows apart from each other, as in a decoding buffer that has room for more positions: read in place by a few
// queries, packed for many.
TEST(AttentionTest, InputsInPlaceOfABufferWithRoomForMore) {
  for (const int64_t n : {1, 3, 19}) {
    AttentionShape s = Talking(Shape(3, n, 37, 3, 4, 5, 7, 6));
    s.R_Ml = s.R_Mw = true;
    AttentionProblem p(s);
    const AttentionResults<float> apart = FusedAttention(p);
    const auto spread = [&](const Floats& values, int64_t positions, int64_t capacity) {
      const int64_t size = static_cast<int64_t>(values.size()) / (s.b * positions);
      Floats buffer(static_cast<size_t>(s.b * capacity * size), std::nanf(""));
      for (int64_t b = 0; b < s.b; ++b) {
        std::copy_n(values.data() + b * positions * size, positions * size, buffer.data() + b * capacity * size);
      }
      return buffer;
    };
    const Floats Q = spread(p.Q, n, n + 2), K = spread(p.K, s.m, 64), V = spread(p.V, s.m, 50);
    const Floats R_Ml = spread(p.R_Ml, s.m, 64), R_Mw = spread(p.R_Mw, s.m, 64);
    p.call.Q = {Q.data(), 21, (n + 2) * 21};
    p.call.K = {K.data(), 21, 64 * 21};
    p.call.V = {V.data(), 30, 50 * 30};
    p.call.R_Ml = {R_Ml.data(), 12, 64 * 12};
    p.call.R_Mw = {R_Mw.data(), 20, 64 * 20};
    const AttentionResults<float> in_place = FusedAttention(p);
    AttentionResults<float>::ForEach([&](const char* name, Floats AttentionResults<float>::*member) {
      EXPECT_EQ(apart.*member, in_place.*member) << name << ", n=" << n;
    });
  }
}

// Tasks share sums: of K and V (by head, or of all heads), of the dynamic mixings, and of a bias over the batch.
TEST(AttentionTest, SameBitsForAnyNumberOfThreads) {
  AttentionShape talking = Talking(Shape(2, 300, 130, 6, 4, 6, 9, 8));
  talking.bias = AttentionBias::kRelativePosition;
  talking.buckets = 5;
  AttentionShape dynamic = Talking(Shape(3, 70, 50, 3, 4, 5, 5, 6));
  dynamic.R_Xl = dynamic.R_Ml = dynamic.R_Xw = dynamic.R_Mw = true;
  dynamic.bias = AttentionBias::kDense;
  AttentionShape multi_query = Shape(3, 150, 50, 5, 5, 5, 5, 6);
  multi_query.kv_heads = KvHeads::kMultiQuery;
  multi_query.bias = AttentionBias::kDense;
  AttentionShape wide = multi_query;  // L is kept
  wide.d_k = 70;
  wide.bias = AttentionBias::kRelativePosition;
  wide.buckets = 5;
  AttentionShape convolved = Convolved(Talking(Shape(2, 300, 130, 6, 4, 6, 9, 8)), 6, 11, 3, 5);
  convolved.bias = AttentionBias::kRelativePosition;
  convolved.buckets = 5;
  AttentionShape grouped = Shape(3, 150, 50, 6, 6, 6, 5, 6);
  grouped.kv_heads = KvHeads::kGrouped;
  grouped.g = 2;
  for (const AttentionShape& s : {talking, dynamic, multi_query, wide, convolved, grouped}) {
    const AttentionProblem p(s, {}, 0.1);
    const ThreadsScope one_thread(1);
    const AttentionResults<float> one = FusedAttention(p);
    for (const int threads : {2, 3, 5, 8}) {
      const ThreadsScope scope(threads);
      const AttentionResults<float> many = FusedAttention(p);
      AttentionResults<float>::ForEach([&](const char* name, Floats AttentionResults<float>::*member) {
        EXPECT_EQ(one.*member, many.*member) << name << " with " << threads << " threads, " << Describe(s);
      });
    }
  }
}

TEST(AttentionTest, KeptLogitsGiveTheBitsOfThoseComputedAgain) {
  for (const KvHeads heads : {KvHeads::kMultiHead, KvHeads::kMultiQuery}) {
    for (const AttentionCausality causality : {AttentionCausality::kNone, AttentionCausality::kCausal}) {
      for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
        AttentionShape s = Shape(3, 75, 83, 3, 3, 3, 101, 7);
        s.kv_heads = heads;
        s.causality = causality;
        s.precision = precision;
        s.bias = AttentionBias::kRelativePosition;
        s.buckets = 5;
        ASSERT_EQ(KeptLogits(s), 3 * 3 * 75 * 96);
        const AttentionProblem p(s, {.key_padding = true, .attention = true}, 0.1);
        const AttentionResults<float> kept = FusedAttention(p);
        const AttentionResults<float> again = FusedAttention(p, WantedResults::kAll, Logits::kComputedAgain);
        AttentionResults<float>::ForEach([&](const char* name, Floats AttentionResults<float>::*member) {
          EXPECT_EQ(kept.*member, again.*member) << name << ", " << Describe(s);
        });
      }
    }
  }
}

TEST(AttentionTest, LogitsAreKeptOnlyWhereTheyTakeNoMoreRoomThanQ) {
  const AttentionShape s = Shape(2, 9, 40, 3, 3, 3, 64, 5);
  EXPECT_EQ(KeptLogits(s), 2 * 3 * 9 * 64);
  EXPECT_EQ(KeptLogits(Shape(2, 9, 40, 3, 3, 3, 63, 5)), 0);
  EXPECT_EQ(KeptLogits(Shape(2, 9, 65, 3, 3, 3, 64, 5)), 0);
  EXPECT_EQ(KeptLogits(Shape(2, 4, 40, 3, 3, 3, 64, 5)), 0) << "K is read in place";
  EXPECT_EQ(KeptLogits(Talking(s)), 0);
  AttentionCall talking;
  talking.shape = Talking(s);
  float place = 0;
  EXPECT_THROW(AttentionForward(talking, {}, {.L = &place}, nullptr, 1), Error);
  EXPECT_THROW(AttentionBackward(talking, {}, {.L = &place}, {}, {}, nullptr, 1), Error);
}

// A process of its own, whose first kernel is the backward pass: the choice of the SIMD target is made, and refused,
// there.
TEST(AttentionTest, BackwardMayBeTheFirstCallOfAProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto backward = [] {
    setenv("CROSSTALK_SIMD", "none of them", 1);
    AttentionCall call;
    call.shape = Shape(1, 1, 1, 1, 1, 1, 1, 1);
    float one = 1;
    call.Q = call.K = call.V = {&one, 1};
    float dQ, dK, dV;
    AttentionGradients gradients;
    gradients.Q = {&dQ, 1}, gradients.K = {&dK, 1}, gradients.V = {&dV, 1};
    Floats workspace(AttentionBackwardWorkspaceBytes(call.shape, 1) / sizeof(float) + 16);
    try {
      AttentionBackward(call, {&one, 1}, {&one, &one}, {&one, 1}, gradients, Aligned(workspace), 1);
    } catch (const Error&) {
      std::exit(0);
    }
    std::exit(1);
  };
  EXPECT_EXIT(backward(), ::testing::ExitedWithCode(0), "");
}

TEST(AttentionTest, AWorkspaceForFewerThreadsIsEnough) {
  AttentionShape s = Talking(Shape(2, 130, 70, 3, 4, 5, 9, 8));
  const AttentionProblem p(s);
  const ThreadsScope one_thread(1);
  const AttentionResults<float> expected = FusedAttention(p);
  const Floats::size_type floats = AttentionForwardWorkspaceBytes(s, 2) / sizeof(float) + 16;
  const ThreadsScope eight_threads(8);
  Floats workspace(floats), O(expected.O.size()), row_max(s.b * s.h * s.n), inv_row_sum(s.b * s.h * s.n);
  void* aligned = Aligned(workspace);
  AttentionForward(p.call, {O.data(), s.h_v * s.d_v}, {row_max.data(), inv_row_sum.data()}, aligned, 2);
  EXPECT_EQ(O, expected.O);
}

// The tasks of the backward pass share the table's gradient: a bucket for each distance costs no more than n + m.
TEST(AttentionTest, TheWorkspaceGrowsAsTheRows) {
  AttentionShape s = Talking(Shape(1, 4096, 4096, 12, 12, 12, 64, 64));
  s.bias = AttentionBias::kRelativePosition;
  s.buckets = s.n + s.m - 1;
  const size_t once = AttentionBackwardWorkspaceBytes(s, 1);
  s.n = s.m = 8192;
  s.buckets = s.n + s.m - 1;
  EXPECT_LT(AttentionBackwardWorkspaceBytes(s, 1), 3 * once);
}

TEST(AttentionTest, RefusesWhatIsNoneOfTheFamily) {
  EXPECT_THROW(AttentionForwardWorkspaceBytes(Shape(1, 2, 3, 2, 3, 3, 4, 4), 1), Error);
  EXPECT_THROW(AttentionForwardWorkspaceBytes(Shape(1, 2, 0, 3, 3, 3, 4, 4), 1), Error);
  AttentionShape s = Talking(Shape(1, 2, 3, 3, 3, 3, 4, 4));
  s.kv_heads = KvHeads::kMultiQuery;
  EXPECT_THROW(AttentionBackwardWorkspaceBytes(s, 1), Error);
}

}  // namespace attention_test
}  // namespace crosstalk::kernels
