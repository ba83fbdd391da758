// Chapter 7 of the course (examples/course/7_language_model.md): a model of letters with one block, trained for a
// second; what it has learnt, step by step; and what its heads do.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/models/text/synthetic/stories.h"
#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/nn/attention/types.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/nn/optim/adam.h"
#include "crosstalk/nn/optim/optimizer.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/random.h"

using namespace crosstalk;  // an example may

namespace {

constexpr int64_t b = 8, n = 32, d = 32, h = 4;  // sequences, letters in each, width, heads

class Model : public Module {
 public:
  Model(int64_t letters, const Initializer& init)
      : Module(init),
        letters_(this, "letters", letters, d, 1.0),
        places_(this, "places", n, d, 1.0),
        norm_(this, "norm", d, NormConfig{}),
        attention_(this, "attention", CausalTalkingHeads()),
        last_norm_(this, "last_norm", d, NormConfig{}),
        scores_(this, "scores", d, letters, LinearBias::kNo) {}

  Variable Forward(const Tensor& ids) const {  // int32[b, n] → logits[b, n, letters]
    const Variable x = letters_->Forward(ids) + places_->Forward(n);
    const Variable seen = norm_->Forward(x);
    return scores_->Forward(last_norm_->Forward(x + attention_->Forward(seen, seen, {}, {}).Y));
  }

 private:
  static AttentionConfig CausalTalkingHeads() {
    AttentionConfig config = AttentionConfig::TalkingHeads(d, h, h, h, d / h, d / h);
    config.causality = Causality::kCausal;
    return config;
  }

  Child<EmbeddingLayer> letters_;
  Child<LearnedPositions> places_;
  Child<NormLayer> norm_;
  Child<AttentionModule> attention_;
  Child<NormLayer> last_norm_;
  Child<Linear> scores_;
};

// For each head the mean weight of the position `back` before the query, in W[b, h, n, m].
void PrintWeights(const Tensor& W) {
  std::printf("mean weight of a position that is 0, 1, 2, 3 before the query\n");
  for (int64_t head = 0; head < h; ++head) {
    std::printf("  head %d", static_cast<int>(head));
    for (int64_t back = 0; back < 4; ++back) {
      double mean = 0;
      for (int64_t row = 0; row < b; ++row)
        for (int64_t i = 3; i < n; ++i) mean += W.At({row, head, i, i - back}) / static_cast<double>(b * (n - 3));
      std::printf("  %.2f", mean);
    }
    std::printf("\n");
  }
}

}  // namespace

int main() {
  const std::string text =
      MakeSyntheticCorpus(1).training->ReadSegment(1, 0, 1, 40'000, TextSource::Order::kSequential);
  std::string letters = text;
  std::sort(letters.begin(), letters.end());
  letters.erase(std::unique(letters.begin(), letters.end()), letters.end());
  const auto classes = static_cast<int64_t>(letters.size());

  const Model model(classes, Initializer(1));
  AdamW optimizer(model.Parameters());
  Tensor ids = Tensor::Empty({b, n}, DType::kInt32), next = Tensor::Empty({b * n}, DType::kInt32);
  std::printf("%lld parameters, %lld letters\n", static_cast<long long>(model.NumParameters()),
              static_cast<long long>(classes));
  for (uint32_t step = 0; step <= 200; ++step) {
    for (int64_t row = 0; row < b; ++row) {
      const size_t at = UniformInt({.seed = 1, .stream = StreamId("places"), .step = step}, row, text.size() - n);
      for (int64_t i = 0; i < n; ++i) {
        ids.data<int32_t>()[row * n + i] = static_cast<int32_t>(letters.find(text[at + i]));
        next.data<int32_t>()[row * n + i] = static_cast<int32_t>(letters.find(text[at + i + 1]));
      }
    }
    const Variable logits = Reshape(model.Forward(ids), {b * n, classes});
    const Variable loss = Scale(CrossEntropy(logits, next).loss, 1.0 / (b * n));  // nats a letter
    Backward(loss);
    optimizer.Step(/*learning_rate=*/0.01, ClipScale(GradientNorm(model.Parameters()), 1.0));
    model.ZeroGrad();
    if (step % 50 == 0) std::printf("step %3u  %.2f nats a letter\n", step, loss.value().Item());
  }
  // Once more, and look at the weights.
  const ContextScope no_grad = NoGrad();
  const std::function<void(const AttentionCapture&)> look = [](const AttentionCapture& seen) { PrintWeights(seen.W); };
  const ContextScope captured(&OpContext::capture, &look);
  model.Forward(ids);
}
