// The fused attention in bfloat16, by pairs and on matrix tiles (the processor's where it has some, else their model):
// what attention_test.cc does not say of both precisions. On tiles sizes of keys and values are multiples of 16, and
// numbers of heads on both sides of what fills tiles.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <vector>

#include "crosstalk/runtime/random.h"
#include "gtest/gtest.h"
#include "tests/kernels/attention/attention_problem.h"
#include "tests/kernels/attention/near_reference.h"

namespace crosstalk::kernels {
namespace attention_bfloat16_test {

using Results = AttentionResults<float>;

AttentionShape InBFloat16(const Kind& kind, AttentionShape sizes) {
  sizes.precision = Precision::kBFloat16;
  return OfKind(kind, sizes);
}

enum class Unit { kPairs, kTiles };
std::vector<std::pair<Kind, Unit>> KindsOnUnits() {
  std::vector<std::pair<Kind, Unit>> all;
  for (const Kind& kind : kKinds) {
    all.emplace_back(kind, Unit::kPairs);
    if (!kind.convolved) all.emplace_back(kind, Unit::kTiles);  // beside convolutions pairs multiply
  }
  return all;
}

class UnitScope {
 public:
  explicit UnitScope(Unit unit) {
    RestrictBFloat16Unit(unit == Unit::kTiles ? "tiles" : SupportedBFloat16Units().front());
  }
  ~UnitScope() { RestrictBFloat16Unit(""); }
};

// A kind, by pairs and on tiles.
class AttentionBFloat16Test : public ::testing::TestWithParam<std::pair<Kind, Unit>> {
 protected:
  const Kind& kind() const { return GetParam().first; }
  AttentionShape OnUnit(const AttentionShape& for_pairs, const AttentionShape& for_tiles) const {
    return InBFloat16(kind(), GetParam().second == Unit::kPairs ? for_pairs : for_tiles);
  }

 private:
  const UnitScope unit_{GetParam().second};
};
INSTANTIATE_TEST_SUITE_P(AllKinds, AttentionBFloat16Test, ::testing::ValuesIn(KindsOnUnits()), [](const auto& info) {
  return TestName(info.param.first) + (info.param.second == Unit::kTiles ? "OnTiles" : "");
});

void ExpectNear(const AttentionShape& s, ProblemMasks masks = {}, double dropout = 0, double smallest = 0.1) {
  const AttentionProblem p(s, masks, dropout);
  ExpectRoundedNear(ErrorsOf(FusedAttention(p), ReferenceAttention(p), smallest), Describe(s));
}

// The mean error of ordinary sizes, and it grows neither with positions nor with heads.
CROSSTALK_ATTENTION_TEST(AttentionErrorTest);
TEST_P(AttentionErrorTest, IsThatOfTheRoundedOperands) {
  const auto errors = [](int64_t n, int64_t h) {
    const AttentionProblem p(InBFloat16(GetParam(), Shape(1, n, n, h, h, h, 64, 64)));
    return ErrorsOf(FusedAttention(p), ReferenceAttention(p));
  };
  const int64_t n = Emulated() ? 32 : 64;
  const Errors few = errors(32, 4), long_rows = errors(2 * n, 4), many_heads = errors(n, 16);
  EXPECT_LE(long_rows.mean, 1.3 * few.mean);
  EXPECT_LE(many_heads.mean, 1.3 * few.mean);
  EXPECT_LE(many_heads.mean, kMeanTolerance);
  EXPECT_LE(many_heads.largest, kRoundedTolerance) << many_heads.where;
}

// On tiles d of one step and of several, of less than a tile's columns; heads that are mixed on tiles and not; by pairs
// odd sizes of more columns than are packed at a time.
TEST_P(AttentionBFloat16Test, IsNearTheReferenceForEveryCut) {
  for (const auto& [d_k, d_v] : SomeOf<std::pair<int64_t, int64_t>>({{16, 48}, {64, 16}, {32, 96}, {80, 112}})) {
    for (const int64_t h : {2, 5}) {
      ExpectNear(
          OnUnit(Shape(1, 21, 37, h, h + 1, h + 2, d_k - 13, d_v + 3), Shape(1, 37, 45, h, h + 2, h + 4, d_k, d_v)));
    }
  }
  for (const int64_t n : SomeOf(Sizes{1, 8, 9, 16, 17, 33, 65})) {
    ExpectNear(OnUnit(Shape(1, n, 33, 4, 6, 2, 37, 35), Shape(1, n, 70, 4, 6, 2, 32, 16)));
  }
}

TEST_P(AttentionBFloat16Test, IsNearTheReferenceWithBiasesMasksAndDropout) {
  if (GetParam().second == Unit::kPairs) return;  // attention_test.cc
  for (const AttentionBias bias :
       SomeOf<AttentionBias>({AttentionBias::kRelativePosition, AttentionBias::kNone, AttentionBias::kDense})) {
    AttentionShape s = InBFloat16(kind(), Shape(2, 37, 69, 4, 6, 8, 16, 32));
    s.bias = bias;
    s.buckets = 7;
    ExpectNear(s, {.key_padding = true, .attention = true}, 0.2);
    s.causality = AttentionCausality::kCausal;
    ExpectNear(s, {.key_padding = true}, 0.1);
    if (bias != AttentionBias::kRelativePosition) continue;
    const AttentionProblem p(s, {.key_padding = true}, 0.15);
    ExpectNearOnEveryTarget(p, ReferenceAttention(p), 0.1, {"tiles"});
  }
}

// The values rounded, which they then have in float, too.
std::vector<uint16_t> RoundInPlace(Floats& values) {
  std::vector<uint16_t> rounded(values.size());
  RoundToBFloat16(std::ssize(values), values.data(), rounded.data());
  WidenBFloat16(std::ssize(values), rounded.data(), values.data());
  return rounded;
}

// Q, K and V that are kept in bfloat16 are read where they lie. Without a mixing, which the normaliser would multiply
// before it is rounded, and with a scale that is a power of 2, the operands of products are rounded, and nothing else:
// inputs that bfloat16 holds give the same as those that round to them.
TEST_P(AttentionBFloat16Test, RoundedInputsGiveTheSameBits) {
  for (const std::string& target : SupportedSimdTargets()) {
    RestrictSimdTarget(target);
    for (const int64_t n : {3, 41}) {
      AttentionProblem p(OnUnit(Shape(2, n, 70, 3, 4, 5, 16, 9), Shape(1, n, 33, 4, 2, 6, 16, 16)), {}, 0.25);
      const bool mixes = p.call.shape.MixesLogits() || p.call.shape.MixesWeights() || p.call.shape.Convolves();
      const Results unrounded = FusedAttention(p);
      const std::vector<uint16_t> Q = RoundInPlace(p.in.Q), K = RoundInPlace(p.in.K), V = RoundInPlace(p.in.V);
      if (!mixes) RoundInPlace(p.dO);
      const Results widened = FusedAttention(p);
      if (!mixes) ExpectSameBits(widened, unrounded, target);
      p.call.Q = {Q.data(), p.call.Q.stride}, p.call.K = {K.data(), p.call.K.stride};
      p.call.V = {V.data(), p.call.V.stride};
      ExpectSameBits(FusedAttention(p), widened, StrCat(target, " n=", n));
    }
  }
  RestrictSimdTarget("");
}

// What is multiplied adds up to one: a weighted mean of ones is 1 except for roundings of float, 2^-24 for each of the
// sum and its reciprocal and for each of the chunks' 70 / 2 steps at most.
TEST(AttentionBFloat16WeightsTest, AddUpToOne) {
  for (const float logits : {1.0f, 10.0f}) {
    AttentionProblem p(InBFloat16(kKinds[kMultiHeadKind], Shape(2, 41, 70, 3, 3, 3, 16, 9)));
    for (float& q : p.in.Q) q *= logits;
    std::fill(p.in.V.begin(), p.in.V.end(), 1.0f);
    for (const float value : FusedAttention(p).O) EXPECT_NEAR(value, 1, 40 * 0x1p-24);
  }
}

// Logits ten times as large have ten times the error, and their weights' share of it with them.
TEST_P(AttentionBFloat16Test, LargeLogits) {
  AttentionProblem p(OnUnit(Shape(1, 41, 70, 5, 6, 7, 16, 10), Shape(1, 41, 70, 4, 6, 8, 16, 32)));
  for (float& q : p.in.Q) q *= 10;
  EXPECT_LE(ErrorsOf(FusedAttention(p), ReferenceAttention(p)).largest, 10 * kRoundedTolerance);
}

// Every other query sees one position, query i that of i · 31 modulo m; the others none. V of the one position,
// rounded, is the result where nothing is mixed.
TEST_P(AttentionBFloat16Test, QueriesThatSeeNothingOrOnePosition) {
  const AttentionShape s = OnUnit(Shape(2, 9, 70, 3, 4, 5, 16, 10), Shape(2, 21, 70, 4, 2, 6, 16, 32));
  AttentionProblem p(s);
  for (int64_t at = 0; at < s.b * s.n * s.m; ++at) {
    const int64_t i = at / s.m;
    p.attention_mask.push_back(i % 2 == 0 && at % s.m == i * 31 % s.m);
  }
  p.Bind();
  const Results r = FusedAttention(p);
  for (const float dQ : r.d.Q) ASSERT_EQ(dQ, 0);
  RoundInPlace(p.in.V);
  const int64_t O_row = s.h_v * s.d_v, V_row = RowOf(p.sizes.V);
  for (int64_t at = 0; at < std::ssize(r.O); ++at) {
    const int64_t i = at / O_row;
    if (i % 2 == 0 && (s.MixesWeights() || s.Convolves())) continue;
    const float one = p.in.V[(i / s.n * s.m + i * 31 % s.m) * V_row + at % O_row % V_row];
    ASSERT_EQ(r.O[at], i % 2 == 0 ? one : 0) << "query " << i;
  }
}

TEST_P(AttentionBFloat16Test, BackwardHasTheMixedWeightsOfForwardToTheLastBit) {
  for (const int64_t n : {1, 5, 35, 65}) {
    for (const double dropout : {0.0, 0.3}) {
      const AttentionShape s = OnUnit(Shape(2, n, 67, 3, 5, 4, 19, 67), Shape(2, n, 64, 4, 6, 2, 16, 80));
      if (!s.MixesWeights() || s.F_Xw || s.Convolves()) return;
      AttentionProblem p(s, {.key_padding = true}, dropout);
      ForWeightsOfBothPasses(p, [&](int64_t, int64_t i, int64_t, int64_t j, float forward, float backward) {
        ASSERT_EQ(forward, backward) << Describe(s) << " i=" << i << " j=" << j;
      });
    }
  }
}

// A few queries, with those that convolutions read before them, their memory as long as they see, in a buffer with room
// for more: the bits of the same queries among all.
TEST_P(AttentionBFloat16Test, DecodingEqualsTheParallelPassToTheLastBit) {
  AttentionShape s = OnUnit(Shape(2, 70, 70, 3, 4, 5, 11, 13), Shape(2, 70, 70, 4, 2, 6, 32, 16));
  s.causality = AttentionCausality::kCausal;
  const AttentionProblem all(s);
  const Floats O = FusedAttention(all).O;
  const int64_t before = s.Convolves() ? s.c_ql + s.c_qw - 2 : 0, size = s.h_v * s.d_v, room = 96;
  for (const int64_t wanted : {1, 3, 4}) {
    for (int64_t seen = wanted; seen <= s.n; seen += 7) {
      AttentionCall call = all.call;
      const int64_t n = call.shape.n = std::min(seen, wanted + before);
      call.shape.m = seen;
      AttentionOperands<Floats> buffers;
      ForEachOperand([&](AttentionOperand i, const char*, auto) {
        if (all.sizes[i].size() < 4) return;  // of all positions
        const bool of_memory = i == AttentionOperand::kK || i == AttentionOperand::kV || IsPerPosition(i);
        const int64_t row = RowOf(all.sizes[i]), first = of_memory ? 0 : seen - n, count = of_memory ? seen : n;
        const int64_t batch = (of_memory ? room : n) * row;
        buffers[i].assign(s.b * batch, std::nanf(""));
        for (int64_t b = 0; b < s.b; ++b) {
          std::copy_n(all.in[i].data() + (b * s.n + first) * row, count * row, buffers[i].data() + b * batch);
        }
        call[i] = {buffers[i].data(), row, batch};
      });
      Floats few(s.b * n * size), row_max(s.b * s.h * n), inv_row_sum(s.b * s.h * n);
      Workspace workspace(AttentionForwardWorkspaceBytes(call.shape, 1));
      AttentionForward(call, {few.data(), size}, {row_max.data(), inv_row_sum.data()}, workspace.data(), 1);
      for (int64_t b = 0; b < s.b; ++b) {
        const float* expected = O.data() + (b * s.n + seen - wanted) * size;
        EXPECT_TRUE(std::equal(expected, expected + wanted * size, few.data() + (b * n + n - wanted) * size))
            << "n=" << wanted << " of " << seen << " positions";
      }
    }
  }
}

// More than one block of rows and one step of pairs; numbers that are not cut into equal parts; so many that a tile has
// fewer queries than a block of sums: 16, and 8. And groups of heads.
TEST(AttentionTilesTest, AreNearTheReferenceForManyHeadsAndGroups) {
  const UnitScope on_tiles(Unit::kTiles);
  for (const auto& [h_k, h, h_v] : SomeOf<std::tuple<int64_t, int64_t, int64_t>>(
           {{36, 48, 64}, {40, 34, 36}, {64, 42, 2}, {4, 96, 2}, {4, 192, 2}})) {
    ExpectNear(InBFloat16(kKinds[kTalkingKind], Shape(1, 41, 45, h_k, h, h_v, 16, 16)), {}, 0, 1.0);
    if (h < 64) ExpectNear(InBFloat16(kKinds[kDynamicKind], Shape(1, 17, 35, h_k, h, h_v, 16, 16)), {}, 0, 1.0);
  }
  for (const int64_t g : {1, 3}) {
    ExpectNear(InBFloat16(kKinds[kMultiHeadKind], Grouped(Shape(2, 41, 70, 6, 6, 6, 16, 32), g, g)));
    ExpectNear(InBFloat16(kKinds[kTalkingKind], Grouped(Shape(2, 41, 70, 6, 4, 12, 16, 32), g, 6 / g)));
  }
}

// D is dW to the last bit where positions are equal, so that their logits have no gradient, however large keys are.
TEST(AttentionTilesTest, EqualPositionsGiveTheirLogitsNoGradient) {
  const UnitScope on_tiles(Unit::kTiles);
  for (const int64_t d : {16, 64, 80}) {
    AttentionProblem p(InBFloat16(kKinds[kMultiHeadKind], Shape(2, 17, 2, 2, 2, 2, d, d)));
    for (Floats* values : {&p.in.K, &p.in.V}) {
      RoundInPlace(*values);
      for (size_t i = 0, row = static_cast<size_t>(2 * d); i < values->size(); ++i) {
        if (i / row % 2 == 1) (*values)[i] = (*values)[i - row];
      }
    }
    for (float& k : p.in.K) k *= 1024;
    const Results r = FusedAttention(p);
    for (const Floats* gradient : {&r.d.Q, &r.d.K}) {
      EXPECT_TRUE(std::all_of(gradient->begin(), gradient->end(), [](float x) { return x == 0; })) << d;
    }
  }
}

// Tiles add up in another order than pairs, which round alike: a unit that is not taken would show here. Rows too long
// for the cache are computed twice, in blocks of several tiles, forward and backward.
TEST(AttentionTilesTest, AreNearPairsAndHaveOtherBits) {
  AttentionShape long_rows = InBFloat16(kKinds[kTalkingKind], Shape(1, 41, 21001, 2, 62, 2, 16, 16));
  long_rows.causality = AttentionCausality::kCausal;
  for (const AttentionShape& s : {InBFloat16(kKinds[kMultiHeadKind], Shape(1, 33, 64, 2, 2, 2, 64, 32)), long_rows}) {
#ifdef __SANITIZE_ADDRESS__  // with which the model of tiles takes half a minute
    if (s == long_rows) continue;
#endif
    if (Emulated() && s == long_rows) continue;
    const AttentionProblem p(s);
    const auto results = [&p](Unit unit) {
      const UnitScope scope(unit);
      return FusedAttention(p);
    };
    ForEachResult(results(Unit::kTiles), results(Unit::kPairs),
                  [](const std::string& name, const Floats& tiles, const Floats& pairs) {
                    EXPECT_TRUE(CloseToLargest(tiles, pairs, 5e-3)) << name;
                    EXPECT_TRUE(tiles.empty() || !SameBits(tiles, pairs)) << name;
                  });
  }
}

}  // namespace attention_bfloat16_test
}  // namespace crosstalk::kernels
