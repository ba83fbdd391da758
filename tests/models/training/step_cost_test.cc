// What a step is said to cost, against the paper's numbers and against a step that is made.
#include "crosstalk/models/training/step_cost.h"

#include <algorithm>

#include "crosstalk/models/training/loop.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"
#include "tests/support/messages.h"

namespace crosstalk::step_cost_test {

// T5 base on the paper's examples: 512 inputs, 114 targets.
TrainingConfig Base() {
  TrainingConfig config;
  config.model.name = "t5";
  config.model.attention.kind = AttentionKind::kMultihead;
  config.model.attention.heads = 12;
  config.model.d_model = 768;
  config.model.d_ff = 3072;
  config.model.layers = 12;
  config.objective.input_length = 512;
  config.optimization.batch = 3;
  return config;
}
constexpr int64_t kBaseVocabulary = 32100;

TEST(StepCostTest, MultiplicationsOfBaseAreTheSumOfItsParts) {
  const int64_t n = 512, m = 114, d = 768;
  const int64_t encoder = 12 * (4 * n * d * d + 2 * n * n * d + 2 * n * d * 3072);
  const int64_t decoder = 12 * (4 * m * d * d + 2 * m * m * d) + 12 * (2 * m * d * d + 2 * n * d * d + 2 * n * m * d) +
                          12 * 2 * m * d * 3072;
  const auto estimate = [](const TrainingConfig& config) {
    return EstimateStep(ResolvedConfig(config), {kBaseVocabulary, {}});
  };
  TrainingConfig config = Base();
  const StepCost cost = estimate(config);
  EXPECT_EQ(cost.parameters, 222903552);  // published: 2 bias tables of 32 × 12 and their norms included
  EXPECT_EQ(cost.forward_multiplications, 3 * (encoder + decoder + m * d * kBaseVocabulary));
  EXPECT_EQ(cost.step_multiplications, 3 * cost.forward_multiplications);
  config.optimization.activations = Activations::kRecompute;
  EXPECT_EQ(estimate(config).step_multiplications, 4 * cost.forward_multiplications);
  config = Base();
  config.optimization.shards = 3;
  EXPECT_EQ(estimate(config).step_multiplications, cost.step_multiplications);
}

class OneBatch : public BatchSource {
 public:
  explicit OneBatch(Batch batch) : batch_(std::move(batch)) {}
  Batch Get(int64_t, int64_t) override { return batch_; }

 private:
  Batch batch_;
};

// The peak of what a loop allocates for its first step.
int64_t PeakOfAStep(const ResolvedConfig& config, const Vocabulary& vocabulary) {
  ReleaseCachedMemory();
  const int64_t before = GetMemoryStats().live_bytes;
  ResetPeakMemory();
  const auto model = MakeModel(ConfigureModel(*config, vocabulary), 1);
  PrepareModel(config->optimization, *model);
  const auto optimizer = MakeOptimizer(config->optimization, model->Parameters());
  Batch batch =
      FindObjective(*config->objective.name)
          .empty_batch(config->objective, vocabulary.tokens, config->optimization.batch / config->optimization.shards);
  for (const char* name : {"inputs", "targets"}) {
    const Tensor& ids = batch.Get(name);
    for (int64_t i = 0; i < ids.num_elements(); ++i) ids.data<int32_t>()[i] = static_cast<int32_t>(3 + i % 200);
  }
  batch.targets = batch.Get("targets").num_elements();
  OneBatch batches(std::move(batch));
  LocalReducer reducer(config->optimization.shards);
  Loop(*model, batches, *optimizer, reducer, MakeLoopOptions(config->optimization)).Step();
  return GetMemoryStats().peak_bytes - before;
}

// Large enough for several tiles.
TrainingConfig Wide(AttentionKind kind, AttentionImplementation implementation, Activations activations) {
  TrainingConfig config;
  config.model.name = "t5";
  config.model.attention.kind = kind;
  config.model.attention.heads = 8;
  config.model.implementation = implementation;
  config.optimization.activations = activations;
  config.model.d_model = 128;
  config.model.d_ff = 256;
  config.model.layers = 2;
  config.model.dropout_rate = 0.1;
  config.objective.input_length = 96;
  config.optimization.batch = 3;
  return config;
}

// To the byte.
StepCost ExpectMemoryOfAStep(const TrainingConfig& config) {
  const ResolvedConfig resolved(config);
  const StepCost cost = EstimateStep(resolved, {300, {}});
  EXPECT_EQ(cost.total_bytes, PeakOfAStep(resolved, {300, {}}));
  return cost;
}

TrainingConfig Narrow(int64_t batch) {
  TrainingConfig config;
  config.model.name = "t5";
  config.model.d_model = 64;
  config.optimization.batch = batch;
  return config;
}

TEST(StepCostTest, MemoryIsThatOfAStepOnOneThread) {
  const ThreadsScope one_thread(1);
  for (const OptimizerKind optimizer : {OptimizerKind::kAdafactor, OptimizerKind::kAdamW}) {
    for (const int64_t shards : {1, 2, 3, 6, 12}) {
      SCOPED_TRACE(StrCat(Name(optimizer), ", ", shards));
      TrainingConfig config = Narrow(12);
      config.optimization.optimizer = optimizer;
      config.optimization.shards = shards;
      ExpectMemoryOfAStep(config);
    }
  }
  for (const AttentionKind kind : {AttentionKind::kTalking, AttentionKind::kDynamic, AttentionKind::kBilinear}) {
    for (const auto implementation : {AttentionImplementation::kComposed, AttentionImplementation::kFused}) {
      for (const Activations activations : {Activations::kKeep, Activations::kRecompute}) {
        SCOPED_TRACE(StrCat(Name(kind), ", ", Name(implementation), ", ", Name(activations)));
        ExpectMemoryOfAStep(Wide(kind, implementation, activations));
      }
    }
  }
}

TEST(StepCostTest, MemoryIsThatOfAStepWithFrozenParts) {
  const ThreadsScope one_thread(1);
  for (const char* frozen : {"embedding", "encoder", "decoder", "*.P_l,*.P_w", "encoder,embedding", "*.feed_forward"}) {
    for (const Activations activations : {Activations::kKeep, Activations::kRecompute}) {
      SCOPED_TRACE(StrCat(frozen, ", ", Name(activations)));
      TrainingConfig config = Narrow(6);
      config.optimization.activations = activations;
      const StepCost whole = EstimateStep(ResolvedConfig(config), {300, {}});
      config.optimization.frozen = frozen;
      const StepCost cost = ExpectMemoryOfAStep(config);
      EXPECT_EQ(cost.parameters, whole.parameters);
      EXPECT_GT(cost.frozen_parameters, 0);
      EXPECT_EQ(cost.parameter_bytes, whole.parameter_bytes - 4 * cost.frozen_parameters);
      EXPECT_LT(cost.optimizer_bytes, whole.optimizer_bytes);
      EXPECT_LT(cost.total_bytes, whole.total_bytes);
    }
  }
}

// With several threads, each packs a block of A when it gets to it: what is said counts one for each thread, a real
// step those that were there at once.
TEST(StepCostTest, MemoryCountsEveryThreadsBuffers) {
  const ThreadsScope three_threads(3);
  const ResolvedConfig resolved(Wide(AttentionKind::kTalking, AttentionImplementation::kFused, Activations::kKeep));
  const int64_t said = EstimateStep(resolved, {300, {}}).total_bytes, real = PeakOfAStep(resolved, {300, {}});
  EXPECT_GE(said, real);
  EXPECT_NEAR(static_cast<double>(said) / static_cast<double>(real), 1.0, 0.05);
}

// Parts beside each other: what is said counts as many parts at their peaks at once as there are threads.
TEST(StepCostTest, MemoryCountsThePartsBesideEachOther) {
  TrainingConfig config = Wide(AttentionKind::kTalking, AttentionImplementation::kFused, Activations::kKeep);
  config.optimization.batch = 12;
  for (const int64_t parts : {2, 4, 6}) {
    config.optimization.shards = parts;
    const ResolvedConfig resolved(config);
    int64_t in_turn = 0;
    {
      const ThreadsScope one_thread(1);
      in_turn = EstimateStep(resolved, {300, {}}).total_bytes;
    }
    const ThreadsScope two_threads(2);
    const int64_t said = EstimateStep(resolved, {300, {}}).total_bytes;
    // Beside other programs a step's parts may miss each other's peaks: the most of several steps counts.
    int64_t real = 0;
    for (int steps = 0; steps < 20 && static_cast<double>(said) >= 1.6 * static_cast<double>(real); ++steps) {
      real = std::max(real, PeakOfAStep(resolved, {300, {}}));
    }
    EXPECT_GE(said, real) << parts;
    EXPECT_GT(said, in_turn) << parts;
    EXPECT_LT(static_cast<double>(said), 1.6 * static_cast<double>(real)) << parts;
  }
}

TEST(StepCostTest, MultiplicationsThatDoNotFitAreAUsageError) {
  TrainingConfig config = Base();
  config.model.d_model = 4096;
  config.model.d_ff = 16384;
  config.model.attention.heads = 16;
  config.optimization.batch = config.optimization.shards = 16'777'216;
  EXPECT_EQ(testing::MessageOf([&] {
              EstimateStep(ResolvedConfig(config), {kBaseVocabulary, {}});
            }),
            "the sizes are too large: their multiplications do not fit in 63 bits");
}

}  // namespace crosstalk::step_cost_test
