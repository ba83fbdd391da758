// The fused attention in bfloat16 on matrix tiles: the processor's where it has some, else their model. Head sizes and
// numbers of heads on both sides of what fills tiles.
#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "gtest/gtest.h"
#include "tests/kernels/attention/bfloat16_checks.h"

namespace crosstalk::kernels {
namespace attention_tiles_test {

class OneKindOnTilesTest : public ::testing::Test {
 protected:
  OneKindOnTilesTest() { RestrictBFloat16Unit("tiles"); }
  ~OneKindOnTilesTest() override { RestrictBFloat16Unit(""); }
};
class AttentionTilesTest : public OneKindOnTilesTest, public ::testing::WithParamInterface<Kind> {};
// Beside convolutions pairs multiply.
INSTANTIATE_TEST_SUITE_P(AllKinds, AttentionTilesTest, ::testing::ValuesIn(kKinds, kKinds + 8),
                         [](const auto& info) { return TestName(info.param); });

// d of one step and of several, of less than a tile's columns; heads that are mixed on tiles and not.
TEST_P(AttentionTilesTest, ValuesAndGradientsOfEveryCut) {
  for (const auto& [d_k, d_v] : {std::pair<int64_t, int64_t>{16, 48}, {64, 16}, {32, 96}, {80, 112}}) {
    for (const int64_t h : {2, 5}) {
      const AttentionShape s = InBFloat16(GetParam(), Shape(2, 37, 45, h, h + 2, h + 4, d_k, d_v));
      EXPECT_LE(LargestError(AttentionProblem(s)), kTinyTolerance) << Describe(s);
    }
  }
}

TEST_P(AttentionTilesTest, ValuesAndGradientsOfAnyNumberOfQueries) {
  for (const int64_t n : {1, 8, 9, 16, 17, 33, 65}) {
    const AttentionShape s = InBFloat16(GetParam(), Shape(1, n, 70, 4, 6, 2, 32, 16));
    EXPECT_LE(LargestError(AttentionProblem(s)), kTinyTolerance) << Describe(s);
  }
}

TEST_P(AttentionTilesTest, ValuesAndGradientsWithBiasesMasksAndDropout) {
  for (const AttentionBias bias : {AttentionBias::kNone, AttentionBias::kDense, AttentionBias::kRelativePosition}) {
    AttentionShape s = InBFloat16(GetParam(), Shape(2, 69, 101, 4, 6, 8, 16, 32));
    s.bias = bias;
    s.buckets = 7;
    EXPECT_LE(LargestError(AttentionProblem(s, {.key_padding = true, .attention = true}, 0.2)), kTinyTolerance);
    s.causality = AttentionCausality::kCausal;
    EXPECT_LE(LargestError(AttentionProblem(s, {.key_padding = true}, 0.1)), kTinyTolerance);
  }
}

TEST_P(AttentionTilesTest, DecodingEqualsTheParallelPassToTheLastBit) {
  ExpectThatDecodingEqualsTheParallelPass(InBFloat16(GetParam(), Shape(2, 70, 70, 4, 2, 6, 32, 16)));
}

TEST_P(AttentionTilesTest, SameBitsOnAnyThreadsAndTarget) {
  AttentionShape s = InBFloat16(GetParam(), Shape(2, 37, 40, 4, 6, 2, 16, 32));
  s.bias = AttentionBias::kRelativePosition;
  s.buckets = 9;
  s.causality = AttentionCausality::kCausal;
  ExpectSameResults(AttentionProblem(s, {.key_padding = true}, 0.15), {"tiles"});
}

TEST_P(AttentionTilesTest, BackwardHasTheMixedWeightsOfForwardToTheLastBit) {
  for (const int64_t n : {5, 35}) {
    for (const double dropout : {0.0, 0.3}) {
      const AttentionShape s = InBFloat16(GetParam(), Shape(2, n, 64, 4, 6, 2, 16, 64));
      if (s.MixesWeights() && !s.F_Xw) ExpectForwardsMixedWeightsInBackward(s, dropout);
    }
  }
}

// More than one block of rows and one step of pairs; and numbers that are not cut into equal parts.
TEST_F(OneKindOnTilesTest, ManyHeads) {
  for (const Kind& kind : {kKinds[3], kKinds[4]}) {
    for (const auto& [h_k, h, h_v] : {std::tuple<int64_t, int64_t, int64_t>{36, 48, 64}, {40, 34, 36}, {64, 42, 2}}) {
      const AttentionShape s = InBFloat16(kind, Shape(1, 33, 35, h_k, h, h_v, 16, 16));
      EXPECT_LE(LargestError(AttentionProblem(s), 1.0), kTinyTolerance) << Describe(s);
    }
  }
}

// D is dW to the last bit where positions are equal, so that their logits have no gradient, however large keys are.
TEST_F(OneKindOnTilesTest, EqualPositionsGiveTheirLogitsNoGradient) {
  for (const int64_t d : {16, 64, 80}) {
    AttentionProblem p(InBFloat16(kKinds[0], Shape(2, 17, 2, 2, 2, 2, d, d)));
    for (Floats* values : {&p.K, &p.V}) {
      for (size_t i = 0; i < values->size(); ++i) {
        float& value = (*values)[i];
        const size_t row = static_cast<size_t>(2 * d);
        uint16_t rounded;
        RoundToBFloat16(1, &value, &rounded);
        WidenBFloat16(1, &rounded, &value);
        if (i / row % 2 == 1) value = (*values)[i - row];
      }
    }
    for (float& k : p.K) k *= 1024;
    const AttentionResults<float> r = FusedAttention(p);
    EXPECT_TRUE(std::all_of(r.dQ.begin(), r.dQ.end(), [](float x) { return x == 0; })) << d;
    EXPECT_TRUE(std::all_of(r.dK.begin(), r.dK.end(), [](float x) { return x == 0; })) << d;
  }
}

// And those of a row that sees one position, or none.
TEST_P(AttentionTilesTest, QueriesThatSeeNothingOrOnePosition) {
  const AttentionShape s = InBFloat16(GetParam(), Shape(2, 21, 70, 4, 2, 6, 16, 32));
  AttentionProblem p(s, {.attention = true});
  LetQueriesSeeOnePositionOrNone(p);
  const AttentionResults<float> r = FusedAttention(p);
  for (const float dQ : r.dQ) ASSERT_EQ(dQ, 0);
  const int64_t O_row = s.h_v * s.d_v;
  for (int64_t i = 1; i < s.b * s.n; i += 2) {
    for (int64_t e = 0; e < O_row; ++e) ASSERT_EQ(r.O[i * O_row + e], 0) << "query " << i;
  }
}

// So many that a tile has fewer queries than a block of sums: 16, and 8.
TEST_F(OneKindOnTilesTest, TilesOfFewQueries) {
  for (const int64_t h : {96, 192}) {
    const AttentionShape s = InBFloat16(kKinds[3], Shape(1, 41, 45, 4, h, 2, 16, 16));
    EXPECT_LE(LargestError(AttentionProblem(s)), kTinyTolerance) << Describe(s);
  }
}

// Computed twice, in blocks of several tiles, forward and backward: against pairs, which round alike and add in another
// order.
#ifndef __SANITIZE_ADDRESS__  // with which the model of tiles takes half a minute
TEST_F(OneKindOnTilesTest, RowsTooLongForTheCache) {
  AttentionShape s = InBFloat16(kKinds[3], Shape(1, 41, 21001, 2, 62, 2, 16, 16));
  s.causality = AttentionCausality::kCausal;
  const AttentionProblem p(s);
  const AttentionResults<float> on_tiles = FusedAttention(p);
  RestrictBFloat16Unit("widened");
  const AttentionResults<float> of_pairs = FusedAttention(p);
  AttentionResults<float>::ForEach([&](const char* name, Floats AttentionResults<float>::*member) {
    EXPECT_TRUE(testing::CloseToLargest(on_tiles.*member, of_pairs.*member, 5e-3)) << name;
  });
}
#endif

TEST_F(OneKindOnTilesTest, HeadsThatShareKeysAndValues) {
  AttentionShape s = InBFloat16(kKinds[0], Shape(2, 41, 70, 6, 6, 6, 16, 32));
  s.kv_heads = KvHeads::kGrouped;
  for (const int64_t g : {1, 3}) {
    s.g = g;
    EXPECT_LE(LargestError(AttentionProblem(s)), kTinyTolerance);
  }
}

// Tiles add up in another order than pairs: a unit that is not taken would show here.
TEST_F(OneKindOnTilesTest, TheBitsAreThoseOfTiles) {
  const AttentionProblem p(InBFloat16(kKinds[0], Shape(1, 33, 64, 2, 2, 2, 64, 32)));
  const AttentionResults<float> on_tiles = FusedAttention(p);
  RestrictBFloat16Unit("widened");
  const AttentionResults<float> of_pairs = FusedAttention(p);
  EXPECT_FALSE(testing::SameBits(on_tiles.O, of_pairs.O));
  EXPECT_FALSE(testing::SameBits(on_tiles.dQ, of_pairs.dQ));
  EXPECT_FALSE(testing::SameBits(on_tiles.dK, of_pairs.dK));
  EXPECT_FALSE(testing::SameBits(on_tiles.dV, of_pairs.dV));
}

}  // namespace attention_tiles_test
}  // namespace crosstalk::kernels
