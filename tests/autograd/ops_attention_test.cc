#include "crosstalk/autograd/ops_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/storage.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace ops_attention_test {

Tensor RandomFloats(const Shape& shape, uint32_t stream) {
  Tensor tensor = Tensor::Empty(shape, DType::kFloat32);
  FillNormal(tensor, {.seed = 17, .stream = stream}, 0.0, 1.0);
  return tensor;
}

Variable Leaf(const Shape& shape, uint32_t stream) {
  return Variable(RandomFloats(shape, stream), Variable::RequiresGrad::kYes);
}

// A talking-heads problem, every dimension distinct.
AttentionCall TalkingInputs() {
  AttentionCall in;
  in.Q = Leaf({2, 19, 3, 5}, 1);
  in.K = Leaf({2, 37, 3, 5}, 2);
  in.V = Leaf({2, 37, 7, 6}, 3);
  in.P_l = Leaf({3, 4}, 4);
  in.P_w = Leaf({4, 7}, 5);
  in.scale = 0.375;
  return in;
}

Tensor Buckets(int64_t distances, int64_t buckets) {
  Tensor bucket = Tensor::Empty({distances}, DType::kInt32);
  for (int64_t i = 0; i < distances; ++i) bucket.data<int32_t>()[i] = static_cast<int32_t>((i * i + i / 3) % buckets);
  return bucket;
}

// The first `length` positions of a buffer that has room for `capacity`, with the values of `x`.
Variable InBuffer(const Variable& x, int64_t capacity) {
  Shape shape = x.shape();
  shape[1] = capacity;
  const Tensor buffer = Tensor::Full(shape, std::nan(""), DType::kFloat32);
  const Tensor view = buffer.Slice(1, 0, x.size(1));
  view.CopyFrom(x.value());
  return Variable(view);
}

TEST(FusedAttentionTest, ReadsViewsInPlaceWithTheBitsOfACopy) {
  AttentionCall in = TalkingInputs();
  in.R_Ml = Leaf({2, 37, 3, 4}, 9);
  in.R_Mw = Leaf({2, 37, 4, 7}, 10);
  const std::vector<float> expected = FusedAttention(in).value().ToVector<float>();
  AttentionCall views = in;
  for (Variable* memory : {&views.K, &views.V, &views.R_Ml, &views.R_Mw}) *memory = InBuffer(*memory, 64);
  EXPECT_EQ(FusedAttention(views).value().ToVector<float>(), expected);

  // Q and K as slices of one projection, gradients and all; and a view whose positions are not together, copied.
  const auto gradients = [](const AttentionCall& of, const std::vector<Variable>& leaves) {
    for (const Variable& leaf : leaves) leaf.ZeroGrad();
    Backward(FusedAttention(of), RandomFloats({2, 19, 7, 6}, 6));
    std::vector<std::vector<float>> bits;
    for (const Variable& leaf : leaves) bits.push_back(leaf.grad().Contiguous().ToVector<float>());
    return bits;
  };
  AttentionCall self = TalkingInputs();
  self.K = Leaf({2, 19, 3, 5}, 2);
  self.V = Leaf({2, 19, 7, 6}, 3);
  const std::vector<std::vector<float>> of_parts = gradients(self, {self.Q, self.K, self.V});
  const Variable wide(Concat({self.Q.Detach(), self.K.Detach()}, 2).value(), Variable::RequiresGrad::kYes);
  const Variable turned(self.V.value().Transpose(1, 2).Contiguous(), Variable::RequiresGrad::kYes);
  AttentionCall of_one = self;
  of_one.Q = Slice(wide, 2, 0, 3);
  of_one.K = Slice(wide, 2, 3, 6);
  of_one.V = Transpose(turned, 1, 2);
  gradients(of_one, {wide, turned});
  EXPECT_EQ(wide.grad().Slice(2, 0, 3).Contiguous().ToVector<float>(), of_parts[0]);
  EXPECT_EQ(wide.grad().Slice(2, 3, 6).Contiguous().ToVector<float>(), of_parts[1]);
  EXPECT_EQ(turned.grad().Transpose(1, 2).Contiguous().ToVector<float>(), of_parts[2]);
}

// J is computed of scale · Q, rounded, which is why Q is kept as it is where the scale is no power of two: backward has
// forward's weights, and so the same dV as where Q was scaled before.
TEST(FusedAttentionTest, BFloat16HasTheSameBitsForAScaleAsForScaledQueries) {
  const ContextScope precision(&OpContext::precision, Precision::kBFloat16);
  for (const bool mixed : {true, false}) {
    AttentionCall in = TalkingInputs();
    if (!mixed) {
      in.P_l = in.P_w = Variable();
      in.V = Leaf({2, 37, 3, 6}, 3);
    }
    const Tensor dO = RandomFloats({2, 19, mixed ? 7 : 3, 6}, 6);
    std::vector<std::vector<float>> dV;
    for (const bool scaled_before : {false, true}) {
      if (scaled_before) {
        const Tensor Q = in.Q.value().Clone();
        for (int64_t i = 0; i < Q.num_elements(); ++i) Q.data<float>()[i] *= 0.375f;
        in.Q = Variable(Q, Variable::RequiresGrad::kYes);
        in.scale = 1;
      }
      in.V.ZeroGrad();
      Backward(FusedAttention(in), dO);
      dV.push_back(in.V.grad().Contiguous().ToVector<float>());
    }
    EXPECT_EQ(dV[0], dV[1]) << mixed;
  }
}

TEST(FusedAttentionTest, BFloat16KeepsItsInputsInHalfTheBytes) {
  const auto kept = [](Precision precision) {
    const ContextScope scope(&OpContext::precision, precision);
    const Variable Q = Leaf({2, 64, 4, 16}, 1), K = Leaf({2, 64, 4, 16}, 2), V = Leaf({2, 64, 4, 16}, 3);
    const Variable P_w = Leaf({4, 4}, 4);
    const int64_t before = GetMemoryStats().live_bytes;
    AttentionCall in;  // of the inputs themselves nothing else holds the values
    in.Q = Scale(Q, 2), in.K = Scale(K, 2), in.V = Scale(V, 2), in.P_w = P_w;
    const Variable O = FusedAttention(in);
    in = {};
    return GetMemoryStats().live_bytes - before;
  };
  const int64_t inputs = 3 * 2 * 64 * 4 * 16;
  EXPECT_EQ(kept(Precision::kFloat32) - kept(Precision::kBFloat16), inputs * 2);
}

TEST(FusedAttentionTest, AStepOfDecodingCopiesNoCache) {
  constexpr int64_t m = 3000;
  AttentionCall in;
  in.Q = Leaf({2, 1, 4, 16}, 1);
  in.K = InBuffer(Leaf({2, m, 4, 16}, 2), 4096);
  in.V = InBuffer(Leaf({2, m, 4, 16}, 3), 4096);
  const ContextScope no_grad = NoGrad();
  const int64_t before = GetMemoryStats().live_bytes;
  ResetPeakMemory();
  FusedAttention(in);
  const int64_t K_bytes = 2 * m * 4 * 16 * 4;
  EXPECT_LT(GetMemoryStats().peak_bytes - before, K_bytes / 4);  // the mask of each position, and a few tiles
}

TEST(FusedAttentionTest, ARateAMaskOrABiasThatCannotBeIsRefused) {
  using C = AttentionCall;
  // A table of so many heads and 6 buckets, with the buckets of so many distances.
  const auto biased = [](C& c, int64_t heads, int64_t distances, int64_t buckets = 6) {
    c.bias_table = Leaf({heads, 6}, 7);
    if (distances > 0) c.distance_bucket = Buckets(distances, buckets);
  };
  const Tensor mask = RandomFloats({2, 37}, 9);
  const Variable bias = Leaf({4, 19, 37}, 8);
  testing::ExpectRefused<std::function<void(C&)>>(
      {{"a rate of 1", [](C& c) { c.dropout_rate = 1.0; }, {"dropout_rate="}},
       {"above 1", [](C& c) { c.dropout_rate = 1.5; }, {"dropout_rate="}},
       {"below 0", [](C& c) { c.dropout_rate = -0.1; }, {"dropout_rate="}},
       {"no number", [](C& c) { c.dropout_rate = std::nan(""); }, {"dropout_rate="}},
       {"a mask", [&](C& c) { c.key_padding_mask = mask; }, {"not bool"}},
       {"no distances", [&](C& c) { biased(c, 4, 0); }, {"distance_bucket"}},
       {"too few", [&](C& c) { biased(c, 4, 54); }, {"distances=54"}},
       {"their type",
        [&](C& c) { biased(c, 4, 55), c.distance_bucket = c.distance_bucket.To(DType::kInt64); },
        {"int32"}},
       {"one too many", [&](C& c) { biased(c, 4, 55, 7); }, {"= 6, but bias_table[h, buckets] has buckets=6"}},
       {"two biases", [&](C& c) { biased(c, 4, 55), c.bias = bias; }, {"one of them"}},
       {"its heads", [&](C& c) { biased(c, 5, 55); }, {"h=5"}}},
      [](const auto& change) {
        AttentionCall in = TalkingInputs();
        change(in);
        FusedAttention(in);
      });
}

}  // namespace ops_attention_test
}  // namespace crosstalk
