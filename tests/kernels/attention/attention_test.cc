// The fused attention against kernels/reference in double: every member of the family, both precisions, every SIMD
// target, sizes around the borders of tiles and vectors.
#include "crosstalk/kernels/attention/attention.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/attention/attention_problem.h"
#include "tests/kernels/attention/near_reference.h"

namespace crosstalk::kernels {
namespace attention_test {

using enum AttentionBias;
constexpr AttentionCausality kCausal = AttentionCausality::kCausal, kFree = AttentionCausality::kNone;

CROSSTALK_ATTENTION_TEST(AttentionTest);

// Sizes of keys and values on both sides of every vector's width, numbers of heads around the register tiles',
// positions around the borders of tiles and chunks; few queries read K and V in place.
TEST_P(AttentionTest, SizesAroundTheBordersOfTilesAndVectors) {
  const auto expect = [](const AttentionShape& s) { ExpectNearReference(OfKind(GetParam(), s)); };
  expect(Shape(2, 19, 37, 3, 5, 7, 11, 13));
  for (const int64_t d : SomeOf(Sizes{1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 31, 33, 47, 64})) {
    expect(Shape(1, 9, 33, 2, 3, 4, d, d + 1));
    expect(Shape(2, 3, 35, 2, 3, 4, d, d + 3));
  }
  for (const int64_t h : SomeOf(Sizes{1, 2, 5, 6, 7, 11, 12, 13, 24, 25, 48})) {
    expect(Shape(1, 9, 33, h, h + 1, h + 2, 3, 2));
  }
  for (const int64_t n : SomeOf(Sizes{1, 4, 7, 8, 9, 33, 65})) {
    for (const int64_t m : SomeOf(Sizes{1, 3, 8, 15, 31, 32, 33, 65})) expect(Shape(1, n, m, 2, 3, 4, 2, 3));
  }
}

TEST_P(AttentionTest, MasksBiasesAndDropout) {
  struct Case {
    AttentionBias bias;
    AttentionCausality causality;
    ProblemMasks masks;
    double dropout;
    int64_t n = 41, m = 70;
  };
  const std::vector<Case> cases = {{kNone, kCausal, {}, 0},
                                   {kNone, kFree, {.key_padding = true}, 0.3},
                                   {kNone, kCausal, {.key_padding = true, .attention = true}, 0.2, 70},
                                   {kNone, kFree, {.attention = true}, 0, 4},
                                   {kNone, kCausal, {.key_padding = true, .attention = true}, 0.2, 3, 37},
                                   {kDense, kFree, {}, 0.3},
                                   {kDense, kCausal, {.key_padding = true}, 0.1, 33, 36},
                                   {kDense, kFree, {.key_padding = true, .attention = true}, 0, 3},
                                   {kRelativePosition, kFree, {.key_padding = true, .attention = true}, 0.2},
                                   {kRelativePosition, kCausal, {.key_padding = true}, 0},
                                   {kRelativePosition, kCausal, {}, 0.1, 1}};
  for (const Case& c : SomeOf(cases)) {
    AttentionShape s = OfKind(GetParam(), Shape(2, c.n, c.m, 3, 4, 5, 5, 6));
    s.bias = c.bias;
    s.buckets = 7;
    s.causality = c.causality;
    ExpectNearReference(s, c.masks, c.dropout, c.n < 5 ? 1.0 : 0.1);  // of few queries a bucket's terms cancel
  }
}

// A window's ends on both sides of the borders of chunks and tiles; several blocks, of which later ones see no chunk
// that the first sees; decoding, which sees the last positions.
TEST_P(AttentionTest, WindowsAroundTheBordersOfChunks) {
  if (GetParam().convolved) return;
  for (const int64_t window : SomeOf(Sizes{1, 31, 33, 2, 32, 45, 77, 96})) {
    for (const int64_t n : SomeOf(Sizes{99, 1, 3, 35})) {
      AttentionShape s = Windowed(OfKind(GetParam(), Shape(2, n, 99, 3, 4, 5, 7, 6)), window);
      ExpectNearReference(s, {}, 0, 1.0);
      s.bias = window % 2 == 0 ? kDense : kRelativePosition;
      s.buckets = 7;
      ExpectNearReference(s, {.key_padding = true, .attention = true}, 0.1, 1.0);
    }
  }
  ExpectNearReference(Windowed(OfKind(GetParam(), Shape(1, 331, 333, 3, 4, 5, 7, 6)), 41), {}, 0, 1.0);
}

// The last position that a tile's last query sees lies on either side of a chunk's border, and so does its first's.
TEST_P(AttentionTest, CausalWhereTheDiagonalMeetsTheBordersOfChunks) {
  for (const int64_t m : SomeOf(Sizes{1, 8, 31, 32, 33, 64, 65, 97})) {
    for (const int64_t n : {int64_t{1}, int64_t{5}, int64_t{9}, int64_t{32}, int64_t{33}, m - 1, m}) {
      if (n < 1 || n > m) continue;
      AttentionShape s = OfKind(GetParam(), Shape(1, n, m, 3, 3, 3, 5, 6));
      s.causality = kCausal;
      ExpectNearReference(s, {}, 0, 1.0);
    }
  }
}

TEST(AttentionMixingTest, EverySubsetOfTheProjectionsAloneAndBesideFactors) {
  for (const bool factors : {false, true}) {
    for (int subset = 0; subset < 64; ++subset) {
      AttentionShape s = Shape(1, 5, 35, 3, factors ? 3 : 4, factors ? 3 : 5, 3, 2);
      s.P_l = subset & 1, s.P_w = subset & 2, s.R_Xl = subset & 4, s.R_Ml = subset & 8, s.R_Xw = subset & 16;
      s.R_Mw = subset & 32;
      s.F_Xl = s.F_Ml = factors && subset % 3 != 1;
      s.F_Xw = s.F_Mw = factors && subset % 3 != 2;
      ExpectNearReference(WithEqualHeads(s));
    }
  }
}

TEST(AttentionMixingTest, FactorsOfAnyNumberOfHeads) {
  for (const int64_t h : {1, 2, 5, 12, 17}) {
    for (const auto& [n, m] : {std::pair<int64_t, int64_t>{1, 37}, {3, 1}, {4, 65}, {9, 33}, {41, 70}}) {
      ExpectNearReference(OfKind(kKinds[7], Shape(2, n, m, h, h, h, 5, 6)), {.key_padding = true, .attention = true},
                          0.2, m == 1 ? 1.0 : 0.1);
    }
  }
}

TEST(AttentionMixingTest, ConvolutionsOfLogitsAndOfWeightsOfAnySize) {
  for (const auto& [n, m] : SomeOf<std::pair<int64_t, int64_t>>({{5, 37}, {1, 1}, {71, 75}})) {
    for (const auto& [P_l, P_w] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
      AttentionShape s = Shape(2, n, m, 3, 5, 4, 5, P_l ? 6 : 17);
      s.P_l = P_l, s.P_w = P_w;
      s = WithEqualHeads(s);
      for (const AttentionShape& c : {Convolved(s, 6, 11, 6, 11), Convolved(s, 3, 4, 0, 0), Convolved(s, 0, 0, 2, 7),
                                      Convolved(s, 1, 5, 4, 1), Convolved(s, 8, 19, 5, 2)}) {
        ExpectNearReference(c, {}, 0, 1.0);
        if (P_l != P_w) break;
      }
    }
    AttentionShape shared = Convolved(Shape(2, n, m, 3, 3, 3, 5, 6), 2, 3, 4, 5);
    ExpectNearReference(Grouped(shared, 1, 1), {}, 0, 1.0);
  }
  // Three strips.
  ExpectNearReference(Convolved(Talking(Shape(1, 133, 133, 3, 5, 4, 5, 6)), 6, 11, 6, 11), {}, 0, 1.0);
}

TEST(AttentionHeadsTest, GroupsThatShareKeysAndValues) {
  for (const auto& [h, g] : {std::pair<int64_t, int64_t>{6, 1}, {6, 2}, {6, 3}, {5, 5}}) {
    for (const int64_t n : SomeOf(Sizes{1, 3, 65, 19})) {
      AttentionShape s = Grouped(Shape(2, n, 67, h, h, h, 11, 13), g, g);
      ExpectNearReference(s);
      if (n < 65) ExpectNearReference(Convolved(s, 2, 3, 4, 5), {}, 0, 1.0);
      s.bias = kDense;
      s.causality = kCausal;
      ExpectNearReference(s, {.key_padding = true}, 0.1);
    }
  }
  ExpectNearReference(Grouped(Shape(1, 135, 137, 6, 6, 6, 11, 13), 2, 2));
}

// Mixed and convolved as others are, with more than one block of queries; few queries read K and V in place.
TEST_P(AttentionTest, HeadsThatShareKeysAndValues) {
  for (const int64_t n : SomeOf(Sizes{1, 3, 67, 19})) {
    AttentionShape s = Grouped(OfKind(GetParam(), Shape(2, n, 67, 9, 15, 25, 11, 13)), 3, 5);
    ExpectNearReference(s, {}, 0, n < 5 ? 1.0 : 0.1);
    s.causality = kCausal;
    ExpectNearReference(s, {.key_padding = true}, 0.1, n < 5 ? 1.0 : 0.1);
    const AttentionShape pairs = OfKind(GetParam(), Shape(3, n, 35, 12, 12, 12, 5, 7));
    ExpectNearReference(Grouped(pairs, 4, 3, KeySharing::kPairs), {}, 0, n < 5 ? 1.0 : 0.1);
  }
}

// Large problems, for which all targets would take too long.
void ExpectFloatNearReference(const AttentionShape& s, ProblemMasks masks = {}, double dropout = 0) {
  const AttentionProblem p(s, masks, dropout);
  const Errors errors = ErrorsOf(FusedAttention(p), ReferenceAttention(p), s.F_Xl ? 1.0 : 0.1);
  EXPECT_LE(errors.largest, kTolerance) << errors.where << ", " << Describe(s);
}

TEST(AttentionHeadsTest, ManySmallOnes) {
  ExpectNearReference(Talking(Shape(1, 5, 35, 48, 48, 48, 16, 16)));
  ExpectFloatNearReference(Shape(1, 3, 5, 768, 768, 768, 1, 1));
  ExpectFloatNearReference(OfKind(kKinds[kLogitsKind], Shape(1, 2, 3, 768, 768, 768, 1, 1)));
}

// So many heads that a block is cut into several tiles.
TEST(AttentionHeadsTest, BlocksOfSeveralTiles) {
  AttentionShape s = Talking(Shape(1, 35, 35, 1, 130, 2, 2, 3));
  s.causality = kCausal;
  ExpectNearReference(s, {.key_padding = true});
  ExpectNearReference(OfKind(kKinds[kLogitsKind], Shape(1, 37, 35, 1, 130, 130, 2, 3)), {}, 0.1);
}

// Rows too long to be kept, forward and backward, of either precision: the least number of queries passes the limits of
// the plan. A block then has several tiles. In bfloat16 beside float, which the reference takes too long for.
TEST(AttentionLongRowsTest, AreComputedTwice) {
  AttentionShape causal = Shape(1, 9, 4801, 2, 140, 3, 1, 1);
  causal.P_l = causal.P_w = causal.R_Mw = causal.R_Xl = true;
  causal.causality = kCausal;
  if (!Emulated()) {
    ExpectFloatNearReference(causal, {.key_padding = true, .attention = true}, 0.2);
    ExpectFloatNearReference(Talking(Shape(1, 9, 4801, 2, 140, 2, 1, 1)));
    ExpectFloatNearReference(OfKind(kKinds[7], Shape(1, 5, 36600, 12, 12, 12, 2, 2)));
  }
  for (const AttentionShape& s :
       SomeOf<AttentionShape>({OfKind(kKinds[kWeightsKind], Shape(1, 19, 3001, 280, 280, 3, 1, 1)),
                               Talking(Shape(1, 11, 2401, 2, 560, 3, 1, 1)),
                               OfKind(kKinds[kDynamicKind], Shape(1, 9, 3001, 2, 280, 3, 1, 1)),
                               OfKind(kKinds[kDynamicWithoutPKind], Shape(1, 9, 3001, 2, 280, 3, 1, 1)),
                               OfKind(kKinds[7], Shape(1, 5, 36001, 24, 24, 24, 1, 1)),
                               OfKind(kKinds[8], Shape(1, 19, 3001, 2, 3, 4, 1, 1))})) {
    AttentionProblem p(s);
    const AttentionResults<float> in_float = FusedAttention(p);
    p.call.shape.precision = Precision::kBFloat16;
    ExpectRoundedNear(ErrorsOf(FusedAttention(p), in_float, 1.0), Describe(s));
  }
}

// Shapes that no table has.
TEST(AttentionRandomShapesTest, AreNearTheReference) {
  for (uint32_t i = 0; i < (Emulated() ? 20 : 60); ++i) {
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
    if (s.n <= s.m && draw(2) == 1) s.causality = kCausal;
    const ProblemMasks masks{.key_padding = draw(2) == 1, .attention = draw(2) == 1};
    ExpectNearReference(s, masks, draw(2) == 1 ? 0.15 : 0.0, 1.0);
  }
}

}  // namespace attention_test
}  // namespace crosstalk::kernels
