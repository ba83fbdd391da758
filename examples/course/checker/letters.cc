#include "examples/course/checker/letters.h"

#include <algorithm>
#include <memory>
#include <string>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/models/text/synthetic/stories.h"
#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/random.h"

namespace course {
namespace {

using namespace crosstalk;

constexpr int64_t b = 8, n = 24, d = 32, heads = 4;
constexpr double kLearningRate = 0.01, kClip = 0.3;

AttentionConfig CausalTalkingHeads() {
  AttentionConfig config = AttentionConfig::TalkingHeads(d, heads, heads, heads, d / heads, d / heads);
  config.causality = Causality::kCausal;
  return config;
}

class LetterModel : public Module {
 public:
  LetterModel(int64_t letters, const Initializer& init)
      : Module(init),
        letters_(this, "letters", letters, d, 1.0),
        places_(this, "places", n, d, 1.0),
        norm_1_(this, "norm_1", d, NormConfig{}),
        attention_(this, "attention", CausalTalkingHeads()),
        norm_2_(this, "norm_2", d, NormConfig{}),
        feed_forward_(this, "feed_forward", FeedForwardConfig{.d_model = d, .d_ff = 2 * d}),
        norm_(this, "norm", d, NormConfig{}),
        scores_(this, "scores", d, letters, LinearBias::kNo) {}

  // int32[b, n] → logits[b·n, letters]
  Variable Forward(const Tensor& ids, int64_t letters) const {
    Variable x = letters_->Forward(ids) + places_->Forward(n);
    const Variable seen = norm_1_->Forward(x);
    x = x + attention_->Forward(seen, seen, {}, {}).Y;
    x = x + feed_forward_->Forward(norm_2_->Forward(x), {});
    return Reshape(scores_->Forward(norm_->Forward(x)), {ids.num_elements(), letters});
  }

 private:
  Child<EmbeddingLayer> letters_;
  Child<LearnedPositions> places_;
  Child<NormLayer> norm_1_;
  Child<AttentionModule> attention_;
  Child<NormLayer> norm_2_;
  Child<FeedForward> feed_forward_;
  Child<NormLayer> norm_;
  Child<Linear> scores_;
};

struct Text {
  std::vector<int32_t> ids;
  int64_t letters = 0;
};

const Text& Stories() {
  static const Text text = [] {
    const std::string read =
        MakeSyntheticCorpus(1).training->ReadSegment(1, 0, 1, 40'000, TextSource::Order::kSequential);
    std::string letters = read;
    std::sort(letters.begin(), letters.end());
    letters.erase(std::unique(letters.begin(), letters.end()), letters.end());
    Text result;
    result.letters = static_cast<int64_t>(letters.size());
    for (const char c : read) result.ids.push_back(static_cast<int32_t>(letters.find(c)));
    return result;
  }();
  return text;
}

// n letters each from b places of [begin, end) of the text, and the letters after them.
struct Batch {
  Tensor ids = Tensor::Empty({b, n}, DType::kInt32), next = Tensor::Empty({b * n}, DType::kInt32);
};
Batch MakeBatch(const RandomKey& key, size_t begin, size_t end) {
  Batch batch;
  for (int64_t row = 0; row < b; ++row) {
    const size_t at = begin + UniformInt(key, static_cast<uint64_t>(row), end - begin - n);
    for (int64_t i = 0; i < n; ++i) {
      batch.ids.data<int32_t>()[row * n + i] = Stories().ids[at + static_cast<size_t>(i)];
      batch.next.data<int32_t>()[row * n + i] = Stories().ids[at + static_cast<size_t>(i) + 1];
    }
  }
  return batch;
}

}  // namespace

Training TrainLetters(uint64_t seed, int64_t steps, const std::function<double(TrainingStep&)>& step) {
  const size_t size = Stories().ids.size(), cut = size / 10 * 9;
  const LetterModel model(Stories().letters, Initializer(seed));
  AdamW optimizer(model.Parameters());
  Training training;
  for (int64_t i = 0; i < steps; ++i) {
    const Batch batch =
        MakeBatch({.seed = seed, .stream = StreamId("batch"), .step = static_cast<uint32_t>(i)}, 0, cut);
    TrainingStep one = {.logits = [&] { return model.Forward(batch.ids, Stories().letters); },
                        .targets = batch.next,
                        .parameters = model.Parameters(),
                        .optimizer = optimizer,
                        .learning_rate = kLearningRate,
                        .clip = kClip};
    training.losses.push_back(step(one));
  }
  const ContextScope no_grad = NoGrad();
  constexpr uint32_t kBatches = 20;
  for (uint32_t i = 0; i < kBatches; ++i) {
    const Batch batch = MakeBatch({.seed = 1, .stream = StreamId("held out"), .step = i}, cut, size);
    const double sum = CrossEntropy(model.Forward(batch.ids, Stories().letters), batch.next).loss.value().Item();
    training.held_out += sum / static_cast<double>(b * n) / kBatches;
  }
  return training;
}

}  // namespace course
