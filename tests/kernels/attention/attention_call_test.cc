// What a call of the fused attention reads, keeps, writes and refuses, whatever its sizes.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "crosstalk/kernels/rows.h"
#include "gtest/gtest.h"
#include "tests/kernels/attention/attention_problem.h"
#include "tests/kernels/attention/near_reference.h"

namespace crosstalk::kernels {
namespace attention_call_test {

using Results = AttentionResults<float>;

AttentionShape WithBias(AttentionShape s, AttentionBias bias, int64_t buckets = 5) {
  s.bias = bias;
  s.buckets = buckets;
  return s;
}
AttentionShape InBFloat16(AttentionShape s) {
  s.precision = Precision::kBFloat16;
  return s;
}

TEST(AttentionCallTest, GradientsThatNobodyWantsMayBeNull) {
  for (const AttentionBias bias : {AttentionBias::kDense, AttentionBias::kRelativePosition}) {
    const AttentionProblem p(WithBias(OfKind(kKinds[kDynamicKind], Shape(2, 41, 37, 3, 4, 5, 5, 6)), bias));
    const Results all = FusedAttention(p), inputs = FusedAttention(p, WantedResults::kInputs);
    EXPECT_EQ(inputs.d.Q, all.d.Q);
    EXPECT_EQ(inputs.d.K, all.d.K);
    EXPECT_EQ(inputs.d.V, all.d.V);
  }
}

// Slices of a fused projection, and batch rows apart from each other, as in a decoding buffer that has room for more
// positions: read in place by a few queries, packed for many.
TEST(AttentionCallTest, ReadsOperandsWhereverTheirRowsLie) {
  for (const int64_t n : {1, 3, 19}) {
    AttentionShape s = Talking(Shape(3, n, 37, 3, 4, 5, 7, 6));
    s.R_Ml = s.R_Mw = true;
    AttentionProblem p(s);
    const Results apart = FusedAttention(p);
    AttentionOperands<Floats> buffers;
    int64_t room = 1;  // of rows and positions, another for each
    for (const AttentionOperand i : {AttentionOperand::kQ, AttentionOperand::kK, AttentionOperand::kV,
                                     AttentionOperand::kR_Ml, AttentionOperand::kR_Mw}) {
      const int64_t positions = p.sizes[i][1], row = RowOf(p.sizes[i]), stride = row + 4 * room,
                    batch = (positions + room) * stride;
      buffers[i].assign(static_cast<size_t>(s.b * batch), std::nanf(""));
      for (int64_t at = 0; at < s.b * positions; ++at) {
        std::copy_n(p.in[i].data() + at * row, row,
                    buffers[i].data() + at / positions * batch + at % positions * stride);
      }
      p.call[i] = {buffers[i].data(), stride, batch};
      ++room;
    }
    ExpectSameBits(FusedAttention(p), apart, StrCat("n=", n));
  }
}

// A bias of which every e^bias overflows is as good as none: softmax takes it out. n does not fill its tiles, whose
// last rows have a distance too.
TEST(AttentionCallTest, AnEvenBiasOfAnySizeChangesNothing) {
  for (const float bias : {89.0f, 266.5f, 1e6f}) {
    for (const Kind& kind : {kKinds[kMultiHeadKind], kKinds[kTalkingKind]}) {
      AttentionProblem p(WithBias(OfKind(kind, Shape(1, 5, 37, 3, 3, 3, 4, 7)), AttentionBias::kRelativePosition, 2));
      // Small enough for the rounding of logit + bias not to show.
      std::fill(p.in.Q.begin(), p.in.Q.end(), 0.0f);
      std::fill(p.in.bias_table.begin(), p.in.bias_table.end(), bias);
      ExpectNearOnEveryTarget(p, ReferenceAttention(p), 0.1);
    }
  }
}

// What the bias holds where the mask forbids has no effect, not even by its size.
TEST(AttentionCallTest, TheMaskStandsAboveAnyBias) {
  for (const Kind& kind : {kKinds[kMultiHeadKind], kKinds[kTalkingKind]}) {
    AttentionProblem p(WithBias(OfKind(kind, Shape(2, 5, 37, 3, 3, 3, 4, 7)), AttentionBias::kDense));
    for (int64_t j = 0; j < 2 * 37; ++j) p.key_padding_mask.push_back(j % 37 % 3 != 0);
    p.Bind();
    const Results expected = FusedAttention(p);
    for (const float bias : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max(),
                             -std::numeric_limits<float>::infinity(), std::nanf("")}) {
      for (int64_t i = 0; i < std::ssize(p.in.bias); ++i) {
        if (i % 37 % 3 == 0) p.in.bias[static_cast<size_t>(i)] = bias;
      }
      ExpectSameBits(FusedAttention(p), expected, StrCat(bias));
    }
  }
}

// An additive mask gives what the mask gives, to the last bit: whole rows, whole chunks, and parts of them. A
// convolution reads hidden logits all the same; there the reference says what is right.
TEST(AttentionCallTest, ABiasFarBelowEveryLogitHidesAsTheMaskDoes) {
  for (const Kind& kind : kKinds) {
    const AttentionShape in_float = WithBias(OfKind(kind, Shape(1, 7, 70, 3, 4, 5, 4, 7)), AttentionBias::kDense);
    for (const AttentionShape& s : {in_float, InBFloat16(in_float)}) {
      AttentionProblem p(s), masked(s);
      const auto hides = [&](int64_t query, int64_t position) {
        return query % 3 == 0 || (query % 3 == 1 && position < 40) || position % 4 == 0;
      };
      for (int64_t at = 0; at < s.n * s.m; ++at) masked.attention_mask.push_back(!hides(at / s.m, at % s.m));
      masked.Bind();
      const Results expected = FusedAttention(masked);
      for (const float hidden :
           {kHiddenLogit, std::numeric_limits<float>::lowest(), -std::numeric_limits<float>::infinity()}) {
        for (int64_t i = 0; i < s.h * s.n * s.m; ++i) {
          if (hides(i / s.m % s.n, i % s.m)) p.in.bias[static_cast<size_t>(i)] = hidden;
        }
        if (!kind.convolved) {
          ExpectSameBits(FusedAttention(p), expected, StrCat(kind.name, ", ", hidden));
        } else if (s == in_float) {
          ExpectNearOnEveryTarget(p, ReferenceAttention(p), 1.0);
        }
      }
    }
  }
}

// Tasks share sums: of K and V (by head, or of all heads), of the dynamic mixings, and of a bias over the batch.
TEST(AttentionCallTest, SameBitsForAnyNumberOfThreads) {
  const auto shared = [](AttentionShape s) { return Grouped(s, 1, 1); };
  const AttentionShape talking = WithBias(Talking(Shape(2, 300, 130, 6, 4, 6, 9, 8)), AttentionBias::kRelativePosition);
  for (const AttentionShape& s :
       {talking, Convolved(talking, 6, 11, 3, 5),
        WithBias(OfKind(kKinds[kDynamicKind], Shape(3, 70, 50, 3, 4, 5, 5, 6)), AttentionBias::kDense),
        WithBias(shared(Shape(3, 150, 50, 5, 5, 5, 5, 6)), AttentionBias::kDense),
        WithBias(shared(Shape(3, 150, 50, 5, 5, 5, 70, 6)), AttentionBias::kRelativePosition),  // L is kept
        Grouped(Shape(3, 150, 50, 6, 6, 6, 5, 6), 2, 3), Grouped(Shape(3, 3, 50, 6, 6, 6, 5, 6), 2, 2),
        Grouped(talking, 2, 3), Windowed(Grouped(Talking(Shape(2, 300, 310, 6, 4, 6, 9, 8)), 2, 3), 45),
        Grouped(Convolved(talking, 6, 11, 3, 5), 3, 2),
        Grouped(Shape(3, 150, 50, 8, 8, 8, 5, 6), 4, 2, KeySharing::kPairs),
        // Rows that one to three threads have as their own, and one beside them.
        OfKind(kKinds[kDynamicKind], Shape(19, 40, 35, 3, 4, 5, 5, 6)), Grouped(Shape(19, 40, 35, 6, 6, 6, 5, 6), 2, 3),
        Convolved(Talking(Shape(19, 7, 35, 3, 4, 5, 5, 6)), 2, 3, 3, 5)}) {
    const AttentionProblem p(s, {}, 0.1);
    const ThreadsScope one_thread(1);
    const Results one = FusedAttention(p);
    for (const int threads : SomeOf(std::vector<int>{3, 2, 5, 8})) {
      const ThreadsScope scope(threads);
      ExpectSameBits(FusedAttention(p), one, StrCat(threads, " threads, ", Describe(s)));
    }
  }
}

TEST(AttentionCallTest, AWindowOfAllPositionsHasTheBitsOfNone) {
  for (const Kind& kind : kKinds) {
    if (kind.convolved) continue;
    AttentionShape all = OfKind(kind, Shape(2, 70, 75, 3, 4, 5, 5, 6));
    all.causality = AttentionCausality::kCausal;
    for (const AttentionShape& s : {all, InBFloat16(all)}) {
      const Results expected = FusedAttention(AttentionProblem(s, {}, 0.1));
      for (const int64_t window : {75, 76, 1000}) {
        ExpectSameBits(FusedAttention(AttentionProblem(Windowed(s, window), {}, 0.1)), expected, kind.name);
      }
    }
  }
}

// K and V beyond a query's window have no part in it, whatever they are: the chunks that no query of a block sees are
// not read, and at its ends they are masked.
TEST(AttentionCallTest, KeysAndValuesBeforeAWindowAreNotRead) {
  const AttentionShape s = Windowed(Talking(Shape(1, 3, 299, 3, 4, 5, 5, 6)), 40);
  AttentionProblem p(s);
  const Results expected = FusedAttention(p);
  for (const auto values : {&p.in.K, &p.in.V}) {  // positions before the chunk of the first that is seen, 257
    std::fill_n(values->begin(), 256 * static_cast<int64_t>(values->size()) / 299, std::nanf(""));
  }
  const Results actual = FusedAttention(p);
  EXPECT_TRUE(SameBits(actual.O, expected.O));
  EXPECT_TRUE(SameBits(actual.d.Q, expected.d.Q));
}

// W, and backward J and dW, are kept of the positions that a window reaches, not of whole rows.
TEST(AttentionWorkspaceTest, KeepsRowsOfAWindowAlone) {
  const auto kept = [](int64_t m) {  // of 12 heads, K and V of one element
    AttentionShape s = Windowed(Talking(Shape(1, 64, m, 12, 12, 12, 1, 1)), 100);
    s.g_k = s.g_v = 1;
    return AttentionForwardWorkspaceBytes(s, 1);
  };
  EXPECT_LT(kept(8192), kept(1024) + 2'000'000);
}

TEST(AttentionCallTest, KeptLogitsGiveTheBitsOfThoseComputedAgain) {
  for (const int64_t heads : {3, 1}) {
    for (const AttentionCausality causality : {AttentionCausality::kNone, AttentionCausality::kCausal}) {
      AttentionShape in_float = WithBias(Shape(3, 75, 83, 3, 3, 3, 101, 7), AttentionBias::kRelativePosition);
      in_float.g_k = in_float.g_v = heads;
      in_float.causality = causality;
      for (const AttentionShape& s : {in_float, InBFloat16(in_float)}) {
        ASSERT_EQ(KeptLogits(s), 3 * 3 * 75 * 96);
        const AttentionProblem p(s, {.key_padding = true, .attention = true}, 0.1);
        ExpectSameBits(FusedAttention(p), FusedAttention(p, WantedResults::kAll, Logits::kComputedAgain), Describe(s));
      }
    }
  }
}

TEST(AttentionCallTest, LogitsAreKeptOnlyWhereTheyTakeNoMoreRoomThanQ) {
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
TEST(AttentionCallTest, BackwardMayBeTheFirstCallOfAProcess) {
  if (Emulated()) GTEST_SKIP() << "an emulated program cannot start itself";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto backward = [] {
    setenv("CROSSTALK_SIMD", "none of them", 1);
    AttentionCall call;
    call.shape = Shape(1, 1, 1, 1, 1, 1, 1, 1);
    float one = 1, d[3];
    call.Q = call.K = call.V = {&one, 1};
    AttentionGradients gradients;
    gradients.Q = {d, 1}, gradients.K = {d + 1, 1}, gradients.V = {d + 2, 1};
    Workspace workspace(AttentionBackwardWorkspaceBytes(call.shape, 1));
    try {
      AttentionBackward(call, {&one, 1}, {&one, &one}, {&one, 1}, gradients, workspace.data(), 1);
    } catch (const Error&) {
      std::exit(0);
    }
    std::exit(1);
  };
  EXPECT_EXIT(backward(), ::testing::ExitedWithCode(0), "");
}

TEST(AttentionWorkspaceTest, OneForFewerThreadsIsEnough) {
  const AttentionShape s = Talking(Shape(2, 130, 70, 3, 4, 5, 9, 8));
  const AttentionProblem p(s);
  const ThreadsScope eight_threads(8);
  Floats O(p.dO.size()), row_max(s.b * s.h * s.n), inv_row_sum(s.b * s.h * s.n);
  Workspace workspace(AttentionForwardWorkspaceBytes(s, 2));
  AttentionForward(p.call, {O.data(), s.h_v * s.d_v}, {row_max.data(), inv_row_sum.data()}, workspace.data(), 2);
  EXPECT_EQ(O, FusedAttention(p).O);
}

// The tasks of the backward pass share the table's gradient: a bucket for each distance costs no more than n + m.
TEST(AttentionWorkspaceTest, GrowsAsTheRows) {
  const auto bytes = [](int64_t n) {
    const AttentionShape s = Talking(Shape(1, n, n, 12, 12, 12, 64, 64));
    return AttentionBackwardWorkspaceBytes(WithBias(s, AttentionBias::kRelativePosition, 2 * n - 1), 1);
  };
  EXPECT_LT(bytes(8192), 3 * bytes(4096));
}

// K and V packed, forward once and backward once and a half, and the sums of dK and dV.
TEST(AttentionWorkspaceTest, HasTheOwnHeadsOfKeysAndValues) {
  const AttentionShape s = Talking(Shape(1, 8, 4096, 12, 12, 12, 64, 64)), shared = Grouped(s, 3, 3);
  const auto heads = [](size_t bytes) { return static_cast<double>(bytes) / (4096 * 64 * 4); };
  EXPECT_NEAR(heads(AttentionForwardWorkspaceBytes(s, 1) - AttentionForwardWorkspaceBytes(shared, 1)), 9 * 2, 0.01);
  EXPECT_NEAR(heads(AttentionBackwardWorkspaceBytes(s, 1) - AttentionBackwardWorkspaceBytes(shared, 1)), 9 * 5, 0.01);
}

// J, W and dW of a block's rows, and K and V packed, in half the bytes; the sums of dK and dV stay in float.
TEST(AttentionWorkspaceTest, IsSmallerInBFloat16) {
  const AttentionShape s = Talking(Shape(1, 512, 512, 24, 24, 24, 32, 32));
  const auto ratio = [&](size_t (*bytes)(const AttentionShape&, int)) {
    return static_cast<double>(bytes(InBFloat16(s), 2)) / static_cast<double>(bytes(s, 2));
  };
  EXPECT_LT(ratio(AttentionForwardWorkspaceBytes), 0.65);
  EXPECT_LT(ratio(AttentionBackwardWorkspaceBytes), 0.7);
}

TEST(AttentionShapeTest, WhatIsNoneOfTheFamilyIsRefused) {
  const AttentionShape s = Shape(1, 5, 7, 3, 3, 3, 2, 2), factors = OfKind(kKinds[7], s);
  EXPECT_TRUE(IsSupported(Convolved(Talking(s), 2, 3, 4, 5)));
  const auto changed = [](AttentionShape shape, const auto& change) {
    change(shape);
    return shape;
  };
  using S = AttentionShape;
  const std::pair<const char*, AttentionShape> kCases[] = {
      {"heads that nothing mixes", Shape(1, 2, 3, 2, 3, 3, 4, 4)},
      {"no position", Shape(1, 2, 0, 3, 3, 3, 4, 4)},
      {"fewer positions than queries, causal",
       changed(Shape(1, 4, 3, 3, 3, 3, 4, 4), [](S& c) { c.causality = AttentionCausality::kCausal; })},
      {"fewer than no key heads", Grouped(s, -1, 0)},
      {"key heads that do not divide their readers", Grouped(s, 2, 1)},
      {"value heads that do not", Grouped(s, 1, 2)},
      {"more of them than readers", Grouped(s, 6, 3)},
      {"pairs of an odd number", Grouped(Shape(1, 5, 7, 6, 6, 6, 2, 2), 3, 1, KeySharing::kPairs)},
      {"no bucket", WithBias(s, AttentionBias::kRelativePosition, 0)},
      {"factors of logits that change the number of heads", changed(factors, [](S& c) { c.P_l = true, c.h_k = 2; })},
      {"factors of weights that change it", changed(factors, [](S& c) { c.P_w = true, c.h_v = 4; })},
      {"factors of queries alone", changed(factors, [](S& c) { c.F_Ml = false; })},
      {"a convolution beside a dynamic projection",
       changed(Convolved(Talking(s), 2, 3, 4, 5), [](S& c) { c.R_Xl = true; })},
      {"a convolution beside factors", Convolved(factors, 2, 3, 0, 0)},
      {"a window that is not causal", changed(s, [](S& c) { c.window = 2; })},
      {"a window of fewer than no positions", Windowed(s, -1)},
      {"a window beside a convolution", Windowed(Convolved(s, 2, 3, 0, 0), 2)},
      {"a convolution that reads no key", Convolved(s, 2, 0, 0, 0)}};
  for (const auto& [name, shape] : kCases) {
    EXPECT_THROW(AttentionForwardWorkspaceBytes(shape, 1), Error) << name;
    EXPECT_THROW(AttentionBackwardWorkspaceBytes(shape, 1), Error) << name;
  }
}

}  // namespace attention_call_test
}  // namespace crosstalk::kernels
