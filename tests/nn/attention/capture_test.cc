#include "crosstalk/nn/attention/capture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/ops_elementwise.h"
#include "crosstalk/autograd/ops_reduce.h"
#include "crosstalk/runtime/op_context.h"
#include "tests/support/attention_cases.h"

namespace crosstalk {
namespace capture_test {

// [b, h, n, m] → the references' [b, n, m, h].
Array<double> InPaperOrder(const Tensor& tensor) {
  return tensor.defined() ? ToArray(tensor.Permute({0, 2, 3, 1})) : Array<double>();
}

using TakeCapture = std::function<void(const AttentionCapture&)>;

struct Captured {
  std::vector<AttentionCapture> all;
  AttentionResult result;
};

Captured CaptureCase(const AttentionCase& c, const AttentionInputs<double>& in, DType dtype) {
  const LayerLeaves leaves(c, in, dtype);
  std::optional<RandomKey> dropout_key;
  if (c.dropout) dropout_key = RandomKey{.seed = 5, .stream = 6};
  Captured captured;
  const TakeCapture take = [&](const AttentionCapture& one) { captured.all.push_back(one); };
  const ContextScope scope(&OpContext::capture, &take);
  captured.result =
      ComputeAttention(c.config, leaves.Parameters(), leaves.X, leaves.M, ExtrasOf(c, in, leaves.bias), dropout_key);
  return captured;
}

// Double: chains of some 1000 terms.
constexpr double kTolerance = 1e-12;

TEST(AttentionCaptureTest, GivesWhatThePlainLoopsComputeForEveryCase) {
  for (const AttentionCase& c : AttentionCases()) {
    SCOPED_TRACE(::testing::Message() << c);
    AttentionInputs<double> in = MakeInputs(c);
    in.multiplier = {};  // a capture is before dropout
    const AttentionValues<double> expected = kernels::reference::AttentionForward(in);
    const std::vector<AttentionCapture> all = CaptureCase(c, in, DType::kFloat64).all;
    ASSERT_EQ(all.size(), 1u);
    const AttentionCapture& capture = all[0];
    const HeadMixing& mixing = c.config.mixing;

    ASSERT_EQ(capture.J.defined(), c.config.form == AttentionForm::kProjected);
    if (capture.J.defined()) {
      EXPECT_TRUE(CloseTo(InPaperOrder(capture.J), expected.J, kTolerance)) << "J";
    }
    EXPECT_TRUE(CloseTo(InPaperOrder(capture.W), expected.W, kTolerance)) << "W";
    ASSERT_EQ(capture.U.defined(), mixing.MixesWeights());
    if (capture.U.defined()) {
      EXPECT_TRUE(CloseTo(InPaperOrder(capture.U), expected.U, kTolerance)) << "U";
    }

    // The references keep the mask out of L.
    Array<double> L = InPaperOrder(capture.L);
    for (size_t i = 0; i < L.values().size(); ++i) {
      const size_t pair = i / static_cast<size_t>(c.config.h);
      const bool attend = !in.mask.present() || in.mask.values()[pair] != 0;
      ASSERT_EQ(std::isfinite(L.values()[i]), attend) << i;
      if (!attend) L.values()[i] = expected.L.values()[i];
    }
    EXPECT_TRUE(CloseTo(L, expected.L, kTolerance)) << "L";

    const std::pair<const Tensor*, const Array<double>*> dynamic[] = {{&capture.R_Xl, &expected.core.R_Xl},
                                                                      {&capture.R_Ml, &expected.core.R_Ml},
                                                                      {&capture.R_Xw, &expected.core.R_Xw},
                                                                      {&capture.R_Mw, &expected.core.R_Mw}};
    for (const auto& [actual, plain] : dynamic) {
      ASSERT_EQ(actual->defined(), plain->present());
      if (!plain->present()) continue;
      EXPECT_TRUE(CloseTo(ToArray(*actual), *plain, kTolerance));
    }
  }
}

// Talking heads with all dynamic projections, from what is captured and the layer's own parameters: each step is the
// paper's equation, and the last one is the output of the fused path.
TEST(AttentionCaptureTest, IsThePapersEquationsStepByStep) {
  AttentionConfig config =
      MixingConfig({.P_l = true, .P_w = true, .P_Xl = true, .P_Ml = true, .P_Xw = true, .P_Mw = true});
  config.implementation = AttentionImplementation::kFused;
  config.scale = 0.5;
  const AttentionModule layer(config, Initializer(11).At("layer"));
  const auto random = [](const Shape& shape, uint32_t stream) {
    const Tensor tensor = Tensor::Empty(shape, DType::kFloat32);
    FillNormal(tensor, {.seed = 4, .stream = stream}, 0.0, 1.0);
    return Variable(tensor);
  };
  const Variable X = random({3, 15, config.d_X}, 1), M = random({3, 17, config.d_M}, 2);
  const Variable bias = random({config.h, 15, 17}, 3);
  const Variable fused = layer.Forward(X, M, {.bias = bias}, ForwardContext()).Y;
  std::vector<AttentionCapture> all;
  Variable composed;
  {
    const TakeCapture take = [&](const AttentionCapture& one) { all.push_back(one); };
    const ContextScope scope(&OpContext::capture, &take);
    composed = layer.Forward(X, M, {.bias = bias}, ForwardContext()).Y;
  }
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].module, "layer");
  const AttentionCapture& c = all[0];
  const AttentionParameters& p = layer.parameters();
  const auto variable = [](const Tensor& tensor) { return Variable(tensor); };
  const auto expect_close = [](const char* name, const Tensor& actual, const Variable& expected) {
    EXPECT_TRUE(CloseTo(ToArray(actual), ToArray(expected.value()), 1e-5)) << name;
  };

  const Variable Q = Einsum("Q[b,n,h_k,d_k] = einsum(X[b,n,d_X], P_q[d_X,h_k,d_k])", {X, p.P_q});
  const Variable K = Einsum("K[b,m,h_k,d_k] = einsum(M[b,m,d_M], P_k[d_M,h_k,d_k])", {M, p.P_k});
  const Variable V = Einsum("V[b,m,h_v,d_v] = einsum(M[b,m,d_M], P_v[d_M,h_v,d_v])", {M, p.P_v});
  expect_close("J", c.J, Scale(Einsum("J[b,h_k,n,m] = einsum(Q[b,n,h_k,d_k], K[b,m,h_k,d_k])", {Q, K}), 0.5));
  expect_close("R_Xl", c.R_Xl, Einsum("R[b,n,h_k,h] = einsum(X[b,n,d_X], P_Xl[d_X,h_k,h])", {X, p.P_Xl}));
  expect_close("R_Ml", c.R_Ml, Einsum("R[b,m,h_k,h] = einsum(M[b,m,d_M], P_Ml[d_M,h_k,h])", {M, p.P_Ml}));
  expect_close("R_Xw", c.R_Xw, Einsum("R[b,n,h,h_v] = einsum(X[b,n,d_X], P_Xw[d_X,h,h_v])", {X, p.P_Xw}));
  expect_close("R_Mw", c.R_Mw, Einsum("R[b,m,h,h_v] = einsum(M[b,m,d_M], P_Mw[d_M,h,h_v])", {M, p.P_Mw}));
  const Variable J = variable(c.J), W = variable(c.W);
  Variable L = Einsum("L[b,h,n,m] = einsum(J[b,h_k,n,m], P_l[h_k,h])", {J, p.P_l});
  L = Add(L, Einsum("L[b,h,n,m] = einsum(J[b,h_k,n,m], R[b,n,h_k,h])", {J, variable(c.R_Xl)}));
  L = Add(L, Einsum("L[b,h,n,m] = einsum(J[b,h_k,n,m], R[b,m,h_k,h])", {J, variable(c.R_Ml)}));
  expect_close("L", c.L, Add(L, bias));
  expect_close("W", c.W, Softmax(variable(c.L)));
  Variable U = Einsum("U[b,h_v,n,m] = einsum(W[b,h,n,m], P_w[h,h_v])", {W, p.P_w});
  U = Add(U, Einsum("U[b,h_v,n,m] = einsum(W[b,h,n,m], R[b,n,h,h_v])", {W, variable(c.R_Xw)}));
  U = Add(U, Einsum("U[b,h_v,n,m] = einsum(W[b,h,n,m], R[b,m,h,h_v])", {W, variable(c.R_Mw)}));
  expect_close("U", c.U, U);
  const Variable O = Einsum("O[b,n,h_v,d_v] = einsum(U[b,h_v,n,m], V[b,m,h_v,d_v])", {variable(c.U), V});
  expect_close("Y", fused.value(), Einsum("Y[b,n,d_Y] = einsum(O[b,n,h_v,d_v], P_o[h_v,d_v,d_Y])", {O, p.P_o}));
  expect_close("Y of both paths", fused.value(), composed);
}

TEST(AttentionCaptureTest, TheScopeMakesTheComposedPathCompute) {
  AttentionCase c = {.name = "fused", .config = MixingConfig({.P_l = true, .P_w = true})};
  c.config.implementation = AttentionImplementation::kFused;
  const Captured captured = CaptureCase(c, MakeInputs(c), DType::kFloat32);
  EXPECT_EQ(captured.result.implementation, AttentionImplementation::kComposed);
  ASSERT_EQ(captured.all.size(), 1u);
  EXPECT_EQ(CurrentContext().capture, nullptr);
}

TEST(AttentionCaptureTest, NamesTheModuleAndThePlaceThatAppliesIt) {
  AttentionConfig config = SelfConfig(MixingConfig({}));
  config.d_Y = config.d_X;
  const AttentionModule layer(config, Initializer(1).At("shared"));
  const Variable X(Tensor::Zeros({1, 3, config.d_X}, DType::kFloat32));
  std::vector<AttentionCapture> all;
  const TakeCapture fail = [](const AttentionCapture&) { FAIL() << "the inner scope takes"; };
  const TakeCapture take = [&](const AttentionCapture& one) { all.push_back(one); };
  const ContextScope outer(&OpContext::capture, &fail);
  const ContextScope inner(&OpContext::capture, &take);
  for (const char* place : {"block_0", "block_1"}) {
    const ContextScope scope = InLayer(place);
    layer.Forward(X, X, {}, ForwardContext());
  }
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].layer, "block_0");
  EXPECT_EQ(all[1].layer, "block_1");
  EXPECT_EQ(all[0].module, "shared");
  EXPECT_EQ(all[1].module, "shared");
}

}  // namespace capture_test
}  // namespace crosstalk
