// 2. A language model in one evening: a small decoder with talking heads, from the parts in nn/ and a loop of its own.
// It reads a text letter by letter, learns to say which letter comes next, and then writes.
//
//   build/examples/language_model [FILE [STEPS]]      (without a file it reads the built-in stories)
//
// The letters of all shapes: b sequences in a batch, n letters in each, d numbers for a letter at its place,
// v different letters. logits[b, n, v] at place i are about the letter at place i + 1.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/models/text/synthetic/stories.h"
#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/nn/optim/adam.h"
#include "crosstalk/nn/optim/optimizer.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/random.h"

using namespace crosstalk;  // an example may

namespace {

constexpr int64_t b = 16, n = 64, d = 64, layers = 3, heads = 4;
constexpr uint64_t seed = 1;

// One block. Each half adds to x what it has to say: first every place looks at the places before it, then it thinks
// about what it saw.
class Block : public Module {
 public:
  explicit Block(const Initializer& init)
      : Module(init),
        norm_1_(this, "norm_1", d, NormConfig{}),
        attention_(this, "attention", CausalTalkingHeads()),
        norm_2_(this, "norm_2", d, NormConfig{}),
        feed_forward_(this, "feed_forward", FeedForwardConfig{.d_model = d, .d_ff = 4 * d}) {}

  Variable Forward(const Variable& x) const {  // [b, n, d] → [b, n, d]
    const Variable seen = norm_1_->Forward(x);
    const Variable y = x + attention_->Forward(seen, seen, {}, {}).Y;
    return y + feed_forward_->Forward(norm_2_->Forward(y), {});
  }

 private:
  // Causal: place i attends to places 0 … i, or it would only have to look the answer up.
  static AttentionConfig CausalTalkingHeads() {
    AttentionConfig config = AttentionConfig::TalkingHeads(d, heads, heads, heads, d / heads, d / heads);
    config.causality = Causality::kCausal;
    return config;
  }

  Child<NormLayer> norm_1_;
  Child<AttentionModule> attention_;
  Child<NormLayer> norm_2_;
  Child<FeedForward> feed_forward_;
};

// Letters and their places become vectors, go through the blocks, and become scores of the next letter.
class LanguageModel : public Module {
 public:
  LanguageModel(int64_t letters, const Initializer& init)
      : Module(init), letters_(this, "letters", letters, d, 1.0), places_(this, "places", n, d, 1.0) {
    for (int64_t i = 0; i < layers; ++i) blocks_.emplace_back(this, "block_" + std::to_string(i));
    norm_ = {this, "norm", d, NormConfig{}};
    scores_ = {this, "scores", d, letters, LinearBias::kNo};
  }

  Variable Forward(const Tensor& ids) const {  // int32[b, n] → logits[b, n, v]
    Variable x = letters_->Forward(ids) + places_->Forward(ids.size(1));
    for (const Child<Block>& block : blocks_) x = block->Forward(x);
    return scores_->Forward(norm_->Forward(x));
  }

 private:
  Child<EmbeddingLayer> letters_;
  Child<LearnedPositions> places_;
  std::vector<Child<Block>> blocks_;
  Child<NormLayer> norm_;
  Child<Linear> scores_;
};

// Writes `count` letters after the text: each is drawn by the probabilities that the model gives it.
std::string Write(const LanguageModel& model, const std::string& letters, std::string text, int count) {
  const ContextScope no_grad = NoGrad();
  for (int i = 0; i < count; ++i) {
    const auto window = std::min<int64_t>(n, static_cast<int64_t>(text.size()));
    Tensor ids = Tensor::Empty({1, window}, DType::kInt32);
    for (int64_t j = 0; j < window; ++j) {
      ids.data<int32_t>()[j] = static_cast<int32_t>(letters.find(text[text.size() - static_cast<size_t>(window - j)]));
    }
    const Tensor last = model.Forward(ids).value().Select(1, window - 1).Contiguous();  // [1, v]
    std::vector<double> sums;                                                           // of e^logit
    for (size_t v = 0; v < letters.size(); ++v) {
      sums.push_back((v > 0 ? sums.back() : 0) + std::exp(static_cast<double>(last.data<float>()[v])));
    }
    const double number = Uniform({.seed = seed, .stream = StreamId("write"), .step = 0}, static_cast<uint64_t>(i));
    text += letters[static_cast<size_t>(std::upper_bound(sums.begin(), sums.end() - 1, number * sums.back()) -
                                        sums.begin())];
  }
  return text;
}

void Run(std::string text, uint32_t steps) {
  if (text.size() <= n) throw std::runtime_error("the text is too short");
  std::string letters = text;  // each once: the number of a letter is its place here
  std::sort(letters.begin(), letters.end());
  letters.erase(std::unique(letters.begin(), letters.end()), letters.end());

  const LanguageModel model(static_cast<int64_t>(letters.size()), Initializer(seed));
  AdamW optimizer(model.Parameters(), {.beta2 = 0.99, .weight_decay = 0.1});
  const ScheduleConfig schedule = {
      .kind = ScheduleKind::kCosine, .scale = 8e-3, .warmup_steps = steps / 20, .total_steps = steps};
  std::printf("%zu letters, %zu of them different; %lld parameters\n", text.size(), letters.size(),
              static_cast<long long>(model.NumParameters()));
  for (uint32_t step = 0; step < steps; ++step) {
    // b places of the text at random: n letters each, and the letter after each of them.
    Tensor ids = Tensor::Empty({b, n}, DType::kInt32), next = Tensor::Empty({b * n}, DType::kInt32);
    const RandomKey places = {.seed = seed, .stream = StreamId("places"), .step = step};
    for (int64_t row = 0; row < b; ++row) {
      const uint64_t begin = UniformInt(places, static_cast<uint64_t>(row), text.size() - n);
      for (int64_t i = 0; i < n; ++i) {
        ids.data<int32_t>()[row * n + i] = static_cast<int32_t>(letters.find(text[begin + static_cast<size_t>(i)]));
        next.data<int32_t>()[row * n + i] =
            static_cast<int32_t>(letters.find(text[begin + static_cast<size_t>(i) + 1]));
      }
    }
    const Variable logits = model.Forward(ids);                                                    // [b, n, v]
    const Variable rows = Reshape(logits, {b * n, static_cast<int64_t>(letters.size())});          // [b·n, v]
    const Variable loss = Scale(CrossEntropy(rows, next).loss, 1.0 / static_cast<double>(b * n));  // nats a letter
    Backward(loss);
    optimizer.Step(LearningRate(schedule, step), ClipScale(GradientNorm(model.Parameters()), 1.0));
    model.ZeroGrad();
    if (step % 100 == 0 || step + 1 == steps) std::printf("step %4u  %.3f nats a letter\n", step, loss.value().Item());
  }
  std::printf("%s\n", Write(model, letters, text.substr(0, 1), 300).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::string text;
    if (argc > 1) {
      std::ifstream file(argv[1]);
      if (!file) throw std::runtime_error(std::string(argv[1]) + ": cannot be read");
      text.assign(std::istreambuf_iterator<char>(file), {});
    } else {
      text = MakeSyntheticCorpus(seed).training->ReadSegment(seed, 0, 1, 200'000, TextSource::Order::kSequential);
    }
    Run(text, argc > 2 ? static_cast<uint32_t>(std::max(1, std::atoi(argv[2]))) : 1000);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
