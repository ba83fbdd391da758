// 1. The whole stack in forty lines: one talking-heads layer learns to find the marked row of a sequence. Channel 0 of
// X is 1 in that row alone, channel 1 is always 1, the rest is noise; every query shall answer with the marked row.
#include <cstdio>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/nn/optim/adam.h"
#include "crosstalk/runtime/random.h"

using namespace crosstalk;  // an example may

int main() {
  constexpr int64_t b = 16, n = 12, d = 32;  // batch, sequence, width
  constexpr uint64_t seed = 1;
  AttentionModule attention(AttentionConfig::TalkingHeads(d, 4, 4, 4, 8, 8), Initializer(seed).At("attention"));
  AdamW optimizer(attention.Parameters(), {.weight_decay = 0});

  for (uint32_t step = 0; step <= 300; ++step) {
    Tensor X = Tensor::Empty({b, n, d}, DType::kFloat32);  // X[b, n, d]
    Tensor wanted = Tensor::Empty(X.shape(), X.dtype());   // wanted[b, n, d]
    FillNormal(X, {.seed = seed, .stream = StreamId("noise"), .step = step}, 0, 1);
    const RandomKey marks{.seed = seed, .stream = StreamId("marks"), .step = step};
    for (int64_t i = 0; i < b; ++i) {
      const int64_t marked = static_cast<int64_t>(UniformInt(marks, i, n));
      const Tensor sequence = X.Select(0, i);  // a view, [n, d]
      sequence.Select(1, 0).Fill(0);
      sequence.Select(1, 1).Fill(1);
      sequence.Select(0, marked).Slice(0, 0, 1).Fill(1);
      wanted.Select(0, i).CopyFrom(sequence.Slice(0, marked, marked + 1).BroadcastTo({n, d}));
    }
    const Variable Y = attention.Forward(Variable(X), Variable(X), {}, {}).Y;  // Y[b, n, d]
    const Variable loss = Mean(Square(Y - Variable(wanted)));
    Backward(loss);
    optimizer.Step(0.01);
    attention.ZeroGrad();
    if (step % 100 == 0) std::printf("step %3u  mean squared error %.3f\n", step, loss.value().Item());
  }
}
