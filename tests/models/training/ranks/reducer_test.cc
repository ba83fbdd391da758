// The sums over a step's parts: their order, and that a model's bits do not depend on where its parts are computed.
#include "crosstalk/models/training/ranks/reducer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <random>

#include "crosstalk/models/t5/t5.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/loop.h"
#include "crosstalk/models/training/ranks/rank_group.h"
#include "crosstalk/nn/optim/adafactor.h"
#include "crosstalk/nn/optim/adam.h"
#include "crosstalk/runtime/parallel.h"
#include "tests/support/messages.h"
#include "tests/support/thread_transport.h"

namespace crosstalk {
namespace reducer_test {

// Node (level, index) of the tree over these values, as reducer.h defines it.
double NodeOf(const std::vector<double>& values, int level, size_t index) {
  if (level == 0) return values[index];
  const double left = NodeOf(values, level - 1, 2 * index);
  const bool has_right = ((2 * index + 1) << (level - 1)) < values.size();
  return has_right ? left + NodeOf(values, level - 1, 2 * index + 1) : left;
}

using LossTree = PartTree<LossSum>;
using GradientTree = PartTree<Tensor>;

LossTree::Node Leaf(int64_t part, double value) { return {0, part, {.loss = value, .metrics = {{"m", value, 1}}}}; }

TEST(PartTreeTest, AddsAsTheTreeSaysInWhateverOrderPartsCome) {
  std::mt19937 random(1);
  for (size_t parts = 1; parts <= 17; ++parts) {
    std::vector<double> values(parts);
    for (double& value : values) value = std::ldexp(std::uniform_real_distribution<>(-1, 1)(random), random() % 60);
    const double expected = NodeOf(values, std::bit_width(parts - 1), 0);
    std::vector<int64_t> order(parts);
    for (size_t i = 0; i < parts; ++i) order[i] = static_cast<int64_t>(i);
    for (int attempt = 0; attempt < 20; ++attempt) {
      LossTree tree(static_cast<int64_t>(parts));
      GradientTree gradients(static_cast<int64_t>(parts));
      for (const int64_t part : order) {
        const double value = values[static_cast<size_t>(part)];
        tree.Add(Leaf(part, value));
        gradients.Add({0, part, Tensor::FromValues<double>({1}, {value})});
      }
      const std::vector<LossTree::Node> root = tree.Take();
      ASSERT_EQ(root.size(), 1u) << parts;
      EXPECT_EQ(root[0].sum.loss, expected) << parts;
      EXPECT_EQ(root[0].sum.metrics[0].sum, expected) << parts;
      EXPECT_EQ(root[0].sum.metrics[0].count, static_cast<int64_t>(parts));
      EXPECT_EQ(gradients.Take()[0].sum.Item(), expected) << parts;
      std::shuffle(order.begin(), order.end(), random);
    }
  }
}

TEST(PartTreeTest, PartsInOrderKeepFewSums) {
  for (const int64_t parts : {1, 2, 3, 5, 8, 13, 64}) {
    int most = 0;
    for (int64_t done = 0; done < parts; ++done) {
      LossTree tree(parts);
      for (int64_t part = 0; part < done; ++part) tree.Add(Leaf(part, 1));
      const int kept = static_cast<int>(tree.Take().size());
      EXPECT_EQ(kept, std::popcount(static_cast<uint64_t>(done))) << parts;
      most = std::max(most, kept);
    }
    EXPECT_EQ(MostGradientsKept(parts), most) << parts;
  }
}

TEST(PartTreeTest, AGradientThatAPartDoesNotHaveIsNotAZero) {
  GradientTree tree(3), none(3);
  for (int64_t part = 0; part < 3; ++part) {
    tree.Add({0, part, part == 1 ? Tensor::FromValues<float>({1}, {-0.0f}) : Tensor()});
    none.Add({0, part, Tensor()});
  }
  EXPECT_TRUE(std::signbit(tree.Take()[0].sum.Item()));
  EXPECT_FALSE(none.Take()[0].sum.defined());
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

// On a rank of a group, or alone.
Trained Train(const OptimizerMaker& make_optimizer, int64_t parts, RankGroup* group = nullptr) {
  constexpr int kSteps = 3;
  ModelConfig config = BaseT5();
  config.vocabulary = kVocabulary;
  config.d_model = 8;
  config.d_ff = 12;
  config.layers = 1;
  config.decoder_layers = 1;
  config.dropout_rate = 0.1;
  config.SetAttention(AttentionConfig::TalkingHeads(8, 2, 3, 2, 4, 5));
  T5 model(config, 7);
  const std::vector<NamedParameter> parameters = model.Parameters();
  const std::unique_ptr<Optimizer> optimizer =
      make_optimizer(group == nullptr ? parameters : OwnedBy(group->rank(), parameters, group->size()));
  std::unique_ptr<GradientReducer> reducer = std::make_unique<LocalReducer>(parts);
  if (group != nullptr) reducer = std::make_unique<RankReducer>(*group, parameters, parts);
  RandomBatches batches(parts);
  LoopOptions options;
  options.schedule = {.kind = ScheduleKind::kConstant, .scale = 0.01};
  options.clip_norm = 0.1;
  options.loss.z_loss = 1e-4;
  options.seed = 11;
  Trained trained;
  TrainingObserver observer;
  observer.step = [&](const StepResult& step) { trained.steps.push_back(step); };
  Loop(model, batches, *optimizer, *reducer, options, observer).Train(kSteps);
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

const std::vector<std::pair<const char*, OptimizerMaker>>& Optimizers() {
  static const std::vector<std::pair<const char*, OptimizerMaker>> optimizers = {
      {"adamw", [](auto parameters) { return std::make_unique<AdamW>(std::move(parameters)); }},
      {"lamb", [](auto parameters) { return std::make_unique<Lamb>(std::move(parameters)); }},
      {"adafactor", [](auto parameters) { return std::make_unique<Adafactor>(std::move(parameters)); }},
  };
  return optimizers;
}

TEST(RankReducerTest, BitsDoNotDependOnTheNumberOfRanks) {
  const ThreadsScope one_thread(1);
  for (const auto& [name, make_optimizer] : Optimizers()) {
    for (const int64_t parts : {1, 2, 3, 5, 8, 12}) {
      const Trained expected = Train(make_optimizer, parts);
      for (const int ranks : {1, 2, 3, 4, 5, 8}) {
        if (ranks > parts) continue;
        SCOPED_TRACE(StrCat(name, ", ", parts, " parts on ", ranks, " ranks"));
        std::vector<Trained> trained(static_cast<size_t>(ranks));
        testing::RunRanks(ranks, [&](testing::ThreadTransport& transport) {
          RankGroup group(transport);
          trained[static_cast<size_t>(transport.rank())] = Train(make_optimizer, parts, &group);
        });
        for (const Trained& one : trained) ExpectSame(expected, one);
      }
    }
  }
}

TEST(LocalReducerTest, BitsDoNotDependOnWhetherPartsAreComputedBesideEachOther) {
  const OptimizerMaker& adamw = Optimizers()[0].second;
  for (const int64_t parts : {2, 3, 4, 7, 12}) {
    Trained in_turn;
    {
      const ThreadsScope one_thread(1);
      in_turn = Train(adamw, parts);
    }
    for (const int threads : {2, 3, 4}) {
      SCOPED_TRACE(StrCat(parts, " parts on ", threads, " threads"));
      const ThreadsScope several(threads);
      ExpectSame(in_turn, Train(adamw, parts));
    }
  }
}

TEST(LocalReducerTest, PartsAreBesideEachOtherWhereThatLeavesFewThreadsWithoutWork) {
  const Variable small(Tensor::Zeros({1000}, DType::kFloat32), Variable::RequiresGrad::kYes);
  const auto are = [](int64_t parts, int threads, const std::vector<NamedParameter>& parameters) {
    const ThreadsScope scope(threads);
    return AreBesideEachOther(parts, parameters);
  };
  const std::vector<NamedParameter> parameters = {{"small", small}};
  for (const auto& [parts, threads] : {std::pair(2, 2), {4, 2}, {7, 2}, {7, 8}, {8, 8}, {15, 8}, {64, 3}}) {
    EXPECT_TRUE(are(parts, threads, parameters)) << parts << " on " << threads;
  }
  for (const auto& [parts, threads] : {std::pair(1, 1), {1, 2}, {4, 1}, {3, 2}, {5, 2}, {6, 8}, {9, 8}, {13, 8}}) {
    EXPECT_FALSE(are(parts, threads, parameters)) << parts << " on " << threads;
  }
}

TEST(LocalReducerTest, PartsWhoseGradientsTakeTooMuchMemoryAreComputedInTurn) {
  const ContextScope shapes_only(&OpContext::shapes_only, true);
  const ThreadsScope two(2);
  const Variable large(Tensor::Empty({kMostApartBytes / 16}, DType::kFloat32), Variable::RequiresGrad::kYes);
  std::vector<NamedParameter> parameters = {{"large", large}};
  EXPECT_TRUE(AreBesideEachOther(4, parameters));
  EXPECT_FALSE(AreBesideEachOther(6, parameters));
  parameters[0].trainable = false;
  EXPECT_TRUE(AreBesideEachOther(6, parameters)) << "frozen";
}

TEST(RankReducerTest, MoreRanksThanPartsAreRefused) {
  testing::RunRanks(3, [&](testing::ThreadTransport& transport) {
    RankGroup group(transport);
    EXPECT_NE(testing::MessageOf([&] { RankReducer(group, {}, 2); }).find("3 ranks for the 2 parts"),
              std::string::npos);
  });
}

// Which parameter values meet in which order: of operands M, -M and 1, a sum in another order is another number.
TEST(RankReducerTest, TheOrderOfTheSumIsTheTreesForEveryPlace) {
  constexpr double kHuge = 0x1p60;
  for (const int64_t parts : {2, 3, 5, 6, 7, 8, 12}) {
    for (int64_t plus = 0; plus < parts; ++plus) {
      for (int64_t minus = 0; minus < parts; ++minus) {
        if (plus == minus) continue;
        std::vector<double> values(static_cast<size_t>(parts), 1.0);
        values[static_cast<size_t>(plus)] = kHuge;
        values[static_cast<size_t>(minus)] = -kHuge;
        const double expected = NodeOf(values, std::bit_width(static_cast<uint64_t>(parts - 1)), 0);
        for (const int ranks : {2, 3, 5}) {
          if (ranks > parts) continue;
          testing::RunRanks(ranks, [&](testing::ThreadTransport& transport) {
            const Variable value(Tensor::Zeros({1}, DType::kFloat64), Variable::RequiresGrad::kYes);
            RankGroup group(transport);
            RankReducer reducer(group, {{"w", value}}, parts);
            reducer.Begin({}, 1);
            for (const int64_t part : reducer.parts()) {
              reducer.AddGradient(part, 0, Tensor::FromValues<double>({1}, {values[static_cast<size_t>(part)]}));
              reducer.AddLoss(part, {.loss = values[static_cast<size_t>(part)], .metrics = {}});
            }
            const StepSum sum = reducer.Finish();
            EXPECT_EQ(sum.loss.loss, expected);
            if (transport.rank() != 0) return;
            EXPECT_EQ(sum.gradients[0].Item(), expected) << parts << " on " << ranks;
          });
        }
      }
    }
  }
}

TEST(RankReducerTest, OwnersShareTheElementsEvenly) {
  std::vector<NamedParameter> parameters;
  for (const int64_t size : {7, 100, 3, 50, 50, 9, 1}) {
    parameters.push_back({StrCat("p", parameters.size()),
                          Variable(Tensor::Zeros({size}, DType::kFloat32), Variable::RequiresGrad::kYes)});
  }
  parameters.push_back(parameters[0]);
  parameters.back().trainable = false;
  EXPECT_EQ(OwnersOf(parameters, 2), (std::vector<int>{1, 0, 1, 1, 1, 0, 0, -1}));
}

// 2·N·(R-1)/R bytes a rank on average, where each rank's parts are one node of the tree.
TEST(RankReducerTest, SendsWhatTheFormulaSays) {
  for (const auto& [ranks, parts] : {std::pair(2, 2), {2, 8}, {4, 4}, {4, 8}, {3, 3}}) {
    std::vector<int64_t> sent(static_cast<size_t>(ranks));
    int64_t bytes = 0;
    testing::RunRanks(ranks, [&, parts = parts](testing::ThreadTransport& transport) {
      RankGroup group(transport);
      const Trained trained = Train(Optimizers()[0].second, parts, &group);
      sent[static_cast<size_t>(transport.rank())] = trained.steps[1].exchange.bytes_sent;
      if (transport.rank() != 0) return;
      for (const std::vector<float>& parameter : trained.parameters) bytes += 4 * std::ssize(parameter);
    });
    EXPECT_EQ(std::accumulate(sent.begin(), sent.end(), int64_t{0}), 2 * bytes * (ranks - 1)) << ranks;
  }
}

}  // namespace reducer_test
}  // namespace crosstalk
