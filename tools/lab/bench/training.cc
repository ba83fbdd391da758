// Steps of the small models that people train on a CPU, with everything in them: the batch, forward, backward, clipping
// and the optimizer, as `crosstalk train` makes them.
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/loop.h"
#include "crosstalk/models/training/step_cost.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/storage.h"
#include "tools/lab/bench/bench.h"

namespace crosstalk {
namespace {

// examples/shakespeare/letters.json, on the built-in text.
TrainingConfig Letters() {
  TrainingConfig config;
  config.data.tokenizer = "characters";
  config.model.name = "lm";
  config.model.attention.kind = AttentionKind::kMultihead;
  config.model.attention.heads = 4;
  config.model.layers = 4;
  config.model.positions = PositionScheme::kLearned;
  config.model.feed_forward = FeedForwardKind::kGelu;
  config.objective.input_length = 64;
  config.optimization.batch = 12;
  config.optimization.optimizer = OptimizerKind::kAdamW;
  config.optimization.learning_rate = 1e-3;
  config.optimization.clip = 1;
  config.optimization.z_loss = 0;
  return config;
}

// 10.7 million parameters.
TrainingConfig Letters384() {
  TrainingConfig config = Letters();
  config.model.attention.heads = 6;
  config.model.layers = 6;
  config.model.d_model = 384;
  config.model.d_ff = 1536;
  config.objective.input_length = 256;
  config.optimization.batch = 16;
  return config;
}

// The model of `make train MODEL=name`.
TrainingConfig DefaultOf(const char* name) {
  TrainingConfig config;
  config.model.name = name;
  return config;
}

std::vector<BenchResult> MeasureTraining(const std::string& name, TrainingConfig config,
                                         const BenchSettings& settings) {
  config.optimization.batch = settings.batch.value_or(config.optimization.batch);
  config.objective.input_length = settings.n.value_or(config.objective.input_length);
  const ResolvedConfig resolved(config);
  const TrainingData data = OpenTrainingData(*resolved);
  std::map<Precision, std::unique_ptr<TrainingInMemory>> trainings;
  double tokens = 0;
  const auto run = [&] {
    std::unique_ptr<TrainingInMemory>& training = trainings[CurrentContext().precision];
    if (training == nullptr) {
      TrainingConfig own = *resolved;
      own.optimization.precision = CurrentContext().precision;
      training = std::make_unique<TrainingInMemory>(own, data);
    }
    const StepResult step = training->loop().Step();
    tokens = static_cast<double>(step.tokens);
    return PassSeconds{.forward = step.forward_seconds, .backward = step.backward_seconds, .whole = step.seconds};
  };
  const auto measure_memory = [&](BenchResult& result) {
    ResetPeakMemory();
    const int64_t live = GetMemoryStats().live_bytes;
    run();
    result.extra_bytes = GetMemoryStats().peak_bytes - live;
    result.step = BenchResult::Step();
  };
  const StepCost cost = EstimateStep(resolved, VocabularyOf(*resolved, data.tokenizer.get()));
  std::vector<BenchResult> results = MeasurePasses(name, settings, static_cast<double>(cost.forward_multiplications),
                                                   {.run = run, .measure_memory = measure_memory});
  SetStepTimes(tokens, &results);
  return results;
}

}  // namespace

std::vector<BenchCase> TrainingBenchCases() {
  std::vector<BenchCase> cases;
  const auto add = [&cases](const char* name, const char* goal, const char* bfloat16_goal, TrainingConfig config) {
    cases.push_back({.name = name,
                     .goal = goal,
                     .run = [name, config](const BenchSettings& s) { return MeasureTraining(name, config, s); },
                     .bfloat16_goal = bfloat16_goal});
  };
  add("train-letters", "75 %", "x1.3", Letters());
  add("train-t5", "72 %", "x1.4", DefaultOf("t5"));
  add("train-bert", "72 %", "x1.4", DefaultOf("bert"));
  add("train-letters-384", "87 %", "x1.7", Letters384());
  return cases;
}

}  // namespace crosstalk
