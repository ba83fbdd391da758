// A training step of T5 under OpContext::shapes_only against a real one.
#include "crosstalk/runtime/shapes_only.h"

#include <gtest/gtest.h>

#include "crosstalk/autograd/ops_elementwise.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/nn/optim/adafactor.h"
#include "crosstalk/nn/optim/clipping.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/storage.h"
#include "tests/support/t5_cases.h"
#include "tests/support/threads_scope.h"

namespace crosstalk {
namespace shapes_only_test {

// The peak of a process that makes the model and two steps.
int64_t PeakOfTraining(const T5Config& config, Activations activations) {
  constexpr int64_t kBatch = 3, n = 96, m = 40;
  const int64_t before = GetMemoryStats().live_bytes;
  ResetPeakMemory();
  T5 model(config, 1);
  model.SetActivations(activations);
  Adafactor optimizer(model.Parameters());
  for (int step = 0; step < 2; ++step) {
    const Tensor inputs = TinyIds(kBatch, n, config.vocabulary, 1, 0);
    const Tensor targets = TinyIds(kBatch, m, config.vocabulary, 2, 0);
    const T5Loss loss = model.Loss(inputs, targets, {}, {.phase = ForwardContext::Phase::kTraining});
    Backward(Scale(loss.sum, 1.0 / static_cast<double>(loss.tokens)));
    optimizer.Step(0.01, ClipScale(GradientNorm(model.Parameters()), 1.0));
    model.ZeroGrad();
  }
  return GetMemoryStats().peak_bytes - before;
}

T5Config SmallT5(const char* kind, AttentionImplementation implementation) {
  T5Config config;
  config.vocabulary = 300;
  config.d_model = 128;
  config.d_ff = 256;
  config.encoder_layers = config.decoder_layers = 2;
  config.dropout_rate = 0.1;
  AttentionOptions options;
  options.kind = ParseName<AttentionKind>("attention", kind);
  options.heads = 8;
  AttentionConfig attention = MakeAttentionConfig(options, 128);
  attention.implementation = implementation;
  config.SetAttention(attention);
  config.SetDropout(0.1);
  return config;
}

// With one thread a real step's peak is a function of shapes, and the two are equal to the byte.
TEST(T5ShapesOnlyTest, PeakIsThatOfARealStep) {
  const testing::ThreadsScope one_thread(1);
  for (const char* kind : {"talking", "dynamic", "bilinear"}) {
    for (const auto implementation : {AttentionImplementation::kComposed, AttentionImplementation::kFused}) {
      for (const Activations activations : {Activations::kKeep, Activations::kRecompute}) {
        const T5Config config = SmallT5(kind, implementation);
        const int64_t real = PeakOfTraining(config, activations);
        const ContextScope shapes_only(&OpContext::shapes_only, true);
        EXPECT_EQ(PeakOfTraining(config, activations), real) << kind << " " << Name(implementation);
      }
    }
  }
}

// With several, each thread packs a block of A when it gets to it: the scope counts one for each thread, a real step
// those that were there at once.
TEST(T5ShapesOnlyTest, PeakCountsEveryThreadsBuffers) {
  const testing::ThreadsScope three_threads(3);
  const T5Config config = SmallT5("talking", AttentionImplementation::kFused);
  const int64_t real = PeakOfTraining(config, Activations::kKeep);
  {
    const ContextScope shapes_only(&OpContext::shapes_only, true);
    const int64_t shapes = PeakOfTraining(config, Activations::kKeep);
    EXPECT_GE(shapes, real);
    EXPECT_NEAR(static_cast<double>(shapes) / static_cast<double>(real), 1.0, 0.05);
  }
}

}  // namespace shapes_only_test
}  // namespace crosstalk
