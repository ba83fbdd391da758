

#include "crosstalk/nn/attention/types.h"
#include "crosstalk/runtime/op_context.h"
#include "tests/support/attention_cases.h"

namespace crosstalk::capture_test {

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

    std::vector<std::pair<const char*, const Array<double>*>> dynamic = {{"R_Xl", &expected.core.R_Xl},
                                                                         {"R_Ml", &expected.core.R_Ml},
                                                                         {"R_Xw", &expected.core.R_Xw},
                                                                         {"R_Mw", &expected.core.R_Mw}};
    std::erase_if(dynamic, [](const auto& one) { return !one.second->present(); });
    ASSERT_EQ(capture.dynamic.size(), dynamic.size());
    for (size_t i = 0; i < dynamic.size(); ++i) {
      EXPECT_EQ(capture.dynamic[i].name, dynamic[i].first);
      EXPECT_TRUE(CloseTo(ToArray(capture.dynamic[i].tensor), *dynamic[i].second, kTolerance)) << dynamic[i].first;
    }
  }
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

}  // namespace crosstalk::capture_test
