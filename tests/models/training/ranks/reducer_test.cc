// The sums over a step's parts: their order, wherever the parts are computed; and runs on ranks that end with an error.
#include "crosstalk/models/training/ranks/reducer.h"

#include <numeric>
#include <random>

#include "crosstalk/models/training/ranks/rank_group.h"
#include "crosstalk/models/training/ranks/session.h"
#include "crosstalk/models/training/run.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/parallel.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"
#include "tests/support/thread_transport.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::reducer_test {

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

std::vector<NamedParameter> ParametersOf(const std::vector<int64_t>& sizes) {
  std::vector<NamedParameter> parameters;
  for (const int64_t size : sizes) {
    parameters.push_back({StrCat("p", parameters.size()),
                          Variable(Tensor::Zeros({size}, DType::kFloat32), Variable::RequiresGrad::kYes)});
  }
  return parameters;
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
  std::vector<NamedParameter> parameters = ParametersOf({7, 100, 3, 50, 50, 9, 1});
  parameters.push_back(parameters[0]);
  parameters.back().trainable = false;
  EXPECT_EQ(OwnersOf(parameters, 2), (std::vector<int>{1, 0, 1, 1, 1, 0, 0, -1}));
}

// 2·N·(R-1)/R bytes a rank on average, where each rank's parts are one node of the tree.
TEST(RankReducerTest, SendsWhatTheFormulaSays) {
  const std::vector<int64_t> sizes = {7, 100, 3, 50, 50, 9, 1};
  const int64_t bytes = 4 * std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  for (const auto& [ranks, parts] : {std::pair(2, 2), {2, 8}, {4, 4}, {4, 8}, {3, 3}}) {
    std::atomic<int64_t> sent = 0;
    testing::RunRanks(ranks, [&, parts = parts](testing::ThreadTransport& transport) {
      RankGroup group(transport);
      RankReducer reducer(group, ParametersOf(sizes), parts);
      reducer.Begin({}, sizes.size());
      for (const int64_t part : reducer.parts()) {
        for (size_t i = 0; i < sizes.size(); ++i) {
          reducer.AddGradient(part, i, Tensor::Zeros({sizes[i]}, DType::kFloat32));
        }
        reducer.AddLoss(part, {});
      }
      reducer.Finish();
      reducer.ShareParameters();
      sent += reducer.exchange().bytes_sent;
    });
    EXPECT_EQ(sent, 2 * bytes * (ranks - 1)) << ranks << " ranks, " << parts << " parts";
  }
}

// On three ranks; the bits of such runs are compared in tests/bits.
TEST(RankSessionTest, AnErrorEndsTheRunAndTheRanksCanBeUsedAgain) {
  const TempDir dir;
  const auto refused = [&](const TrainingConfig& config, ErrorKind kind, const std::vector<std::string>& says) {
    testing::RunRanks(3, [&](testing::ThreadTransport& transport) {
      RankGroup group(transport);
      if (!group.leads()) return ServeRanks(group);
      testing::ExpectError([&] { TrainingRun(ResolvedConfig(config), dir / "run", {}, {}, &group).Train(); }, kind,
                           says);
      EXPECT_TRUE(group.together());
      EndRanks(group);
    });
  };
  TrainingConfig config = TinyConfigOf("t5");
  config.optimization.shards = 2;
  refused(config, ErrorKind::kUsage, {"3 ranks", "2 parts"});
  EXPECT_FALSE(Exists(dir / "run")) << "nothing is written";
  config.optimization.shards = 4;
  config.optimization.learning_rate = 1e30;
  refused(config, ErrorKind::kNumerical, {"not finite"});
}

}  // namespace crosstalk::reducer_test
