// Layers under OpContext::shapes_only: how many multiplications they take, and layers too large for any machine.
#include <gtest/gtest.h>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/nn/optim/adam.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {
namespace shapes_only_test {

TEST(ShapesOnlyAttentionTest, MultiplicationsAreThePapersForBothImplementations) {
  constexpr int64_t b = 2, n = 7, m = 11, d = 24;
  for (const char* kind : {"multihead", "talking", "logits", "weights", "dynamic", "bilinear"}) {
    AttentionOptions options;
    options.kind = ParseName<AttentionKind>("attention", kind);
    options.heads = 3;
    AttentionConfig config = MakeAttentionConfig(options, d);
    for (const auto implementation : {AttentionImplementation::kComposed, AttentionImplementation::kFused}) {
      config.implementation = implementation;
      int64_t multiplications = 0;
      const ContextScope shapes_only(&OpContext::shapes_only, true);
      const ContextScope counted(&OpContext::multiplications, &multiplications);
      const AttentionModule attention(config, Initializer(1, DType::kFloat32));
      const Variable X(Tensor::Zeros({b, n, d}, DType::kFloat32)), M(Tensor::Zeros({b, m, d}, DType::kFloat32));
      const AttentionResult result = attention.Forward(X, M, {}, ForwardContext());
      EXPECT_EQ(result.implementation, implementation) << kind;
      EXPECT_EQ(multiplications, b * CostOf(config, n, m).multiplications) << kind << " " << Name(implementation);
    }
  }
}

TEST(ShapesOnlyLinearTest, AStepOfAHundredBillionParametersTakesNoMemory) {
  const int64_t before = GetMemoryStats().live_bytes;
  {
    int64_t multiplications = 0;
    const ContextScope shapes_only(&OpContext::shapes_only, true);
    const ContextScope counted(&OpContext::multiplications, &multiplications);
    constexpr int64_t d_in = 400'000, d_out = 250'000;
    const Linear linear(d_in, d_out, LinearBias::kYes, Initializer(1, DType::kFloat32));
    AdamW optimizer(linear.Parameters(), {});
    Backward(Sum(linear.Forward(Variable(Tensor::Zeros({8, d_in}, DType::kFloat32)))));
    optimizer.Step(0.1);
    EXPECT_EQ(multiplications, 8 * d_in * d_out);
    // Weights, their gradient and AdamW's two moments.
    EXPECT_GE(GetMemoryStats().live_bytes - before, 16 * d_in * d_out);
  }
  EXPECT_EQ(GetMemoryStats().live_bytes, before);
  ResetPeakMemory();
}

}  // namespace shapes_only_test
}  // namespace crosstalk
