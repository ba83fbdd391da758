// The sums over a step's parts: their order, and that a model's bits do not depend on where its parts are computed.
#include "crosstalk/models/training/reducer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <random>

#include "crosstalk/models/t5/t5.h"
#include "crosstalk/models/training/loop.h"
#include "crosstalk/models/training/state_dict.h"
#include "crosstalk/nn/optim/adafactor.h"
#include "crosstalk/nn/optim/adamw.h"
#include "crosstalk/nn/optim/lamb.h"
#include "crosstalk/runtime/threads_scope.h"
#include "tests/support/messages.h"
#include "tests/support/thread_reducer.h"

namespace crosstalk {
namespace reducer_test {

// Node (level, index) of the tree over these values, as reducer.h defines it.
double NodeOf(const std::vector<double>& values, int level, size_t index) {
  if (level == 0) return values[index];
  const double left = NodeOf(values, level - 1, 2 * index);
  const bool has_right = ((2 * index + 1) << (level - 1)) < values.size();
  return has_right ? left + NodeOf(values, level - 1, 2 * index + 1) : left;
}

PartTree::Node Leaf(int64_t part, double value) {
  return {
      0, part, {.gradients = {Tensor::FromValues<double>({1}, {value})}, .loss = value, .metrics = {{"m", value, 1}}}};
}

TEST(PartTreeTest, AddsAsTheTreeSaysInWhateverOrderPartsCome) {
  std::mt19937 random(1);
  for (size_t parts = 1; parts <= 17; ++parts) {
    std::vector<double> values(parts);
    for (double& value : values) value = std::ldexp(std::uniform_real_distribution<>(-1, 1)(random), random() % 60);
    const double expected = NodeOf(values, std::bit_width(parts - 1), 0);
    std::vector<int64_t> order(parts);
    for (size_t i = 0; i < parts; ++i) order[i] = static_cast<int64_t>(i);
    for (int attempt = 0; attempt < 20; ++attempt) {
      PartTree tree(static_cast<int64_t>(parts));
      for (const int64_t part : order) tree.Add(Leaf(part, values[static_cast<size_t>(part)]));
      const std::vector<PartTree::Node> root = tree.Take();
      ASSERT_EQ(root.size(), 1u) << parts;
      EXPECT_EQ(root[0].sum.gradients[0].Item(), expected) << parts;
      EXPECT_EQ(root[0].sum.loss, expected) << parts;
      EXPECT_EQ(root[0].sum.metrics[0].sum, expected) << parts;
      EXPECT_EQ(root[0].sum.metrics[0].count, static_cast<int64_t>(parts));
      std::shuffle(order.begin(), order.end(), random);
    }
  }
}

TEST(PartTreeTest, PartsInOrderKeepFewSums) {
  for (const int64_t parts : {1, 2, 3, 5, 8, 13, 64}) {
    int most = 0;
    for (int64_t done = 0; done < parts; ++done) {
      PartTree tree(parts);
      for (int64_t part = 0; part < done; ++part) tree.Add(Leaf(part, 1));
      const int kept = static_cast<int>(tree.Take().size());
      EXPECT_EQ(kept, std::popcount(static_cast<uint64_t>(done))) << parts;
      most = std::max(most, kept);
    }
    EXPECT_EQ(MostGradientsKept(parts), most) << parts;
  }
}

TEST(PartTreeTest, AGradientThatAPartDoesNotHaveIsNotAZero) {
  PartTree tree(3);
  tree.Add({0, 0, {.gradients = {Tensor(), Tensor()}}});
  tree.Add({0, 1, {.gradients = {Tensor::FromValues<float>({1}, {-0.0f}), Tensor()}}});
  tree.Add({0, 2, {.gradients = {Tensor(), Tensor()}}});
  const std::vector<PartTree::Node> root = tree.Take();
  EXPECT_TRUE(std::signbit(root[0].sum.gradients[0].Item()));
  EXPECT_FALSE(root[0].sum.gradients[1].defined());
}

constexpr int64_t kVocabulary = 30;

// Rows of random ids, some with padding, so that parts count differently.
class RandomBatches : public BatchSource {
 public:
  explicit RandomBatches(int64_t parts) : parts_(parts) {}
  Batch Get(int64_t step, int64_t part) override {
    const auto number = static_cast<uint32_t>(step * parts_ + part);
    const auto ids = [&](const char* stream, int64_t length, int64_t used) {
      Tensor tensor = Tensor::Full({2, length}, 0, DType::kInt32);
      for (int64_t i = 0; i < 2 * length; ++i) {
        if (i % length >= used) continue;
        tensor.data<int32_t>()[i] = static_cast<int32_t>(
            3 + UniformInt({.seed = 3, .stream = StreamId(stream), .step = number}, i, kVocabulary - 3));
      }
      return tensor;
    };
    const Tensor inputs = ids("inputs", 6, 6 - part % 3), targets = ids("targets", 4, 4 - part % 2);
    Batch batch;
    batch.Add("inputs", inputs).Add("targets", targets);
    batch.targets = CountNot(targets, 0);
    batch.positions = targets.num_elements();
    batch.tokens = batch.targets + CountNot(inputs, 0);
    return batch;
  }

 private:
  int64_t parts_;
};

using OptimizerMaker = std::function<std::unique_ptr<Optimizer>(std::vector<NamedParameter>)>;

struct Trained {
  std::vector<std::vector<float>> parameters;
  std::vector<StepResult> steps;
};

Trained Train(const OptimizerMaker& make_optimizer, int64_t parts, GradientReducer& reducer) {
  constexpr int kSteps = 3;
  T5Config config;
  config.vocabulary = kVocabulary;
  config.d_model = 8;
  config.d_ff = 12;
  config.encoder_layers = config.decoder_layers = 1;
  config.dropout_rate = 0.1;
  config.SetAttention(AttentionConfig::TalkingHeads(8, 2, 3, 2, 4, 5));
  T5 model(config, 7);
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(model.Parameters());
  RandomBatches batches(parts);
  LoopOptions options;
  options.schedule = {.kind = ScheduleKind::kConstant, .scale = 0.01};
  options.clip_norm = 0.1;
  options.loss.z_loss = 1e-4;
  options.seed = 11;
  Trained trained;
  TrainingObserver observer;
  observer.step = [&](const StepResult& step) { trained.steps.push_back(step); };
  Loop(model, batches, *optimizer, reducer, options, observer).Train(kSteps);
  for (const NamedTensor& tensor : ParameterTensors(model)) {
    trained.parameters.push_back(tensor.tensor.ToVector<float>());
  }
  return trained;
}

void ExpectSame(const Trained& here, const Trained& there) {
  EXPECT_TRUE(here.parameters == there.parameters);
  ASSERT_EQ(here.steps.size(), there.steps.size());
  for (size_t i = 0; i < here.steps.size(); ++i) {
    const StepResult &a = here.steps[i], &b = there.steps[i];
    EXPECT_GT(a.gradient_norm, 0.1) << "is clipped";
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.gradient_norm, b.gradient_norm);
    EXPECT_EQ(a.metrics[0].value, b.metrics[0].value);
    EXPECT_EQ(a.target_tokens, b.target_tokens);
    EXPECT_EQ(a.tokens, b.tokens);
  }
}

std::vector<std::vector<int64_t>> ContiguousShares(int64_t parts, int64_t threads) {
  std::vector<std::vector<int64_t>> shares(static_cast<size_t>(threads));
  for (int64_t r = 0; r < threads; ++r) {
    for (int64_t part = r * parts / threads; part < (r + 1) * parts / threads; ++part) {
      shares[static_cast<size_t>(r)].push_back(part);
    }
  }
  return shares;
}

std::vector<std::vector<int64_t>> StridedShares(int64_t parts, int64_t threads) {
  std::vector<std::vector<int64_t>> shares(static_cast<size_t>(threads));
  for (int64_t part = 0; part < parts; ++part) shares[static_cast<size_t>(part % threads)].push_back(part);
  return shares;
}

const std::vector<std::pair<const char*, OptimizerMaker>>& Optimizers() {
  static const std::vector<std::pair<const char*, OptimizerMaker>> optimizers = {
      {"adamw", [](auto parameters) { return std::make_unique<AdamW>(std::move(parameters)); }},
      {"lamb", [](auto parameters) { return std::make_unique<Lamb>(std::move(parameters)); }},
      {"adafactor", [](auto parameters) { return std::make_unique<Adafactor>(std::move(parameters)); }},
  };
  return optimizers;
}

TEST(GradientReducerTest, BitsDoNotDependOnWherePartsAreComputed) {
  const ThreadsScope one_thread(1);
  for (const auto& [name, make_optimizer] : Optimizers()) {
    for (const int64_t parts : {1, 3, 5, 8, 12}) {
      LocalReducer local(parts);
      const Trained expected = Train(make_optimizer, parts, local);
      for (const int64_t threads : {2, 3, 4, 8}) {
        for (const auto& shares : {ContiguousShares(parts, threads), StridedShares(parts, threads)}) {
          SCOPED_TRACE(StrCat(name, ", ", parts, " parts in ", threads, " threads"));
          std::vector<Trained> trained(shares.size());
          testing::TrainInThreads(parts, shares, [&](size_t thread, GradientReducer& reducer) {
            trained[thread] = Train(make_optimizer, parts, reducer);
          });
          for (const Trained& one : trained) ExpectSame(expected, one);
        }
      }
    }
  }
}

}  // namespace reducer_test
}  // namespace crosstalk
