#include "crosstalk/models/training/loop.h"

#include <cmath>
#include <utility>

#include "crosstalk/autograd/finite_check.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/optim/clipping.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/stopwatch.h"

namespace crosstalk {

LoopOptions MakeLoopOptions(const OptimizationConfig& config) {
  return {.schedule = MakeSchedule(config),
          .parts = config.accumulate,
          .clip_norm = config.clip.value_or(0),
          .loss = MakeLossOptions(config),
          .denominator = config.loss_denominator,
          .seed = config.seed};
}

Loop::Loop(const Model& model, BatchSource& batches, Optimizer& optimizer, const LoopOptions& options,
           TrainingObserver observer)
    : model_(model),
      batches_(batches),
      optimizer_(optimizer),
      options_(options),
      observer_(std::move(observer)),
      parameters_(model.Parameters()) {
  options_.schedule.Validate();
  CROSSTALK_CHECK(options_.parts >= 1, "training: parts is ", options_.parts, ", and must be at least 1");
}

Loop::End Loop::Train(int64_t steps) {
  while (step() < steps) {
    if (observer_.stop && observer_.stop()) return End::kStopped;
    const StepResult result = Step();
    if (observer_.step) observer_.step(result);
  }
  return End::kFinished;
}

// Gradients of Σ over the parts of their scaled losses, added in the order of the parts.
Loop::Sums Loop::ForwardBackward(const std::vector<Batch>& batches, const LossScales& scales,
                                 StepResult* result) const {
  model_.ZeroGrad();
  Sums sums;
  for (size_t i = 0; i < batches.size(); ++i) {
    const ForwardContext context{ForwardContext::Phase::kTraining, options_.seed,
                                 static_cast<uint32_t>(optimizer_.step()), static_cast<uint32_t>(i)};
    const Stopwatch forward;
    const LossResult loss = model_.Loss(batches[i], options_.loss, context);
    result->forward_seconds += forward.seconds();
    sums.loss += loss.ScaledValue(scales);
    AddSums(sums.metrics, loss.sums);
    if (!std::isfinite(sums.loss)) return sums;
    const Stopwatch backward;
    Backward(loss.Scaled(scales));
    result->backward_seconds += backward.seconds();
  }
  return sums;
}

void Loop::ExplainNonFinite(const std::vector<Batch>& batches, const LossScales& scales, const char* what) const {
  const std::string where =
      StrCat("step ", optimizer_.step() + 1, ": the ", what, " is not finite; no update was made. ");
  const std::string advice = " Try a smaller learning_rate, a longer warmup, or clip = 1.";
  const std::string gradient = DescribeNonFiniteGradient(parameters_);
  std::string first;
  try {
    const ContextScope check(&OpContext::finite_checks, true);
    StepResult ignored;
    ForwardBackward(batches, scales, &ignored);
    first = gradient.empty() ? "The sum of its squares overflows." : "First seen in " + gradient + ".";
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNumerical) throw;
    first = StrCat("It began here: ", error.what(), ".");
  }
  model_.ZeroGrad();
  Fail(ErrorKind::kNumerical, where, first, advice);
}

StepResult Loop::Step() {
  const Stopwatch watch;
  StepResult result;
  const int64_t step = optimizer_.step();
  std::vector<Batch> batches;
  int64_t positions = 0, examples = 0;
  for (int64_t i = 0; i < options_.parts; ++i) {
    batches.push_back(batches_.Get(step, i));
    positions += batches.back().positions;
    examples += batches.back().rows();
    result.target_tokens += batches.back().targets;
    result.tokens += batches.back().tokens;
  }
  if (result.target_tokens == 0) Fail(ErrorKind::kData, "step ", step + 1, ": the batch has no target tokens");
  const int64_t denominator = options_.denominator == LossDenominator::kTokens ? result.target_tokens : positions;
  const LossScales scales = {1.0 / static_cast<double>(denominator), 1.0 / static_cast<double>(examples)};

  const Sums sums = ForwardBackward(batches, scales, &result);
  if (!std::isfinite(sums.loss)) ExplainNonFinite(batches, scales, "loss");
  result.gradient_norm = GradientNorm(parameters_);
  const double clip_scale = ClipScale(result.gradient_norm, options_.clip_norm);
  if (!std::isfinite(clip_scale)) ExplainNonFinite(batches, scales, "gradient");

  result.learning_rate = LearningRate(options_.schedule, step);
  optimizer_.Step(result.learning_rate, clip_scale);
  model_.ZeroGrad();
  result.step = step + 1;
  result.loss = sums.loss;
  result.metrics = Means(sums.metrics);
  result.seconds = watch.seconds();
  return result;
}

}  // namespace crosstalk
