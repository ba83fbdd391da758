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
#include "crosstalk/runtime/trace.h"

namespace crosstalk {

LoopOptions MakeLoopOptions(const OptimizationConfig& config) {
  return {.schedule = MakeSchedule(config),
          .clip_norm = config.clip.value_or(0),
          .loss = MakeLossOptions(config),
          .denominator = config.loss_denominator,
          .seed = config.seed};
}

Loop::Loop(const Model& model, BatchSource& batches, Optimizer& optimizer, GradientReducer& reducer,
           const LoopOptions& options, TrainingObserver observer)
    : model_(model),
      batches_(batches),
      optimizer_(optimizer),
      reducer_(reducer),
      options_(options),
      observer_(std::move(observer)),
      parameters_(model.Parameters()) {
  options_.schedule.Validate();
}

Loop::End Loop::Train(int64_t steps) {
  while (step() < steps) {
    if (observer_.stop && observer_.stop()) return End::kStopped;
    const StepResult result = Step();
    if (observer_.step) observer_.step(result);
  }
  return End::kFinished;
}

// Adds a part's gradients to those that the parameters hold, none of a loss that is not finite.
PartSum Loop::ComputePart(const Batch& batch, int64_t part, const LossScales& scales, StepResult* result) const {
  const ForwardContext context{ForwardContext::Phase::kTraining, options_.seed, static_cast<uint32_t>(step()),
                               static_cast<uint32_t>(part)};
  const Stopwatch forward;
  const LossResult loss = model_.Loss(batch, options_.loss, context);
  result->forward_seconds += forward.seconds();
  PartSum sum{
      .gradients = std::vector<Tensor>(parameters_.size()), .loss = loss.ScaledValue(scales), .metrics = loss.sums};
  if (std::isfinite(sum.loss)) {
    const Stopwatch backward;
    Backward(loss.Scaled(scales));
    result->backward_seconds += backward.seconds();
  }
  return sum;
}

std::vector<Tensor> Loop::TakeGradients() const {
  std::vector<Tensor> gradients;
  for (const NamedParameter& parameter : parameters_) {
    gradients.push_back(parameter.value.requires_grad() ? parameter.value.grad() : Tensor());
  }
  model_.ZeroGrad();
  return gradients;
}

void Loop::ExplainNonFinite(const std::vector<Batch>& batches, const LossScales& scales, const char* what) const {
  const std::string where =
      StrCat("step ", optimizer_.step() + 1, ": the ", what, " is not finite; no update was made. ");
  const std::string advice = " Try a smaller learning_rate, a longer warmup, or clip = 1.";
  const std::string gradient = DescribeNonFiniteGradient(parameters_);
  model_.ZeroGrad();
  std::string first;
  try {
    const ContextScope check(&OpContext::finite_checks, true);
    StepResult ignored;
    for (size_t i = 0; i < batches.size(); ++i) ComputePart(batches[i], reducer_.parts()[i], scales, &ignored);
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
  std::vector<Batch> batches;
  StepCounts counts;
  for (const int64_t part : reducer_.parts()) {
    batches.push_back(batches_.Get(step(), part));
    const Batch& batch = batches.back();
    counts.targets += batch.targets;
    counts.positions += batch.positions;
    counts.examples += batch.rows();
    counts.tokens += batch.tokens;
  }
  counts = reducer_.Begin(counts);
  MarkTrace(TraceEvent::Kind::kPhase, "batch");
  if (counts.targets == 0) Fail(ErrorKind::kData, "step ", step() + 1, ": the batch has no target tokens");
  const int64_t denominator = options_.denominator == LossDenominator::kTokens ? counts.targets : counts.positions;
  const LossScales scales = {1.0 / static_cast<double>(denominator), 1.0 / static_cast<double>(counts.examples)};

  model_.ZeroGrad();
  for (size_t i = 0; i < batches.size(); ++i) {
    const int64_t part = reducer_.parts()[i];
    PartSum sum = ComputePart(batches[i], part, scales, &result);
    if (!reducer_.adds_in_place() || i + 1 == batches.size()) sum.gradients = TakeGradients();
    reducer_.Add(part, std::move(sum));
  }
  PartSum sum = reducer_.Finish();
  if (!std::isfinite(sum.loss)) ExplainNonFinite(batches, scales, "loss");
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (sum.gradients[i].defined()) parameters_[i].value.SetGrad(std::move(sum.gradients[i]));
  }
  MarkTrace(TraceEvent::Kind::kPhase, "gradients");
  result.gradient_norm = GradientNorm(parameters_);
  MarkTrace(TraceEvent::Kind::kPhase, "gradient norm");
  const double clip_scale = ClipScale(result.gradient_norm, options_.clip_norm);
  if (!std::isfinite(clip_scale)) ExplainNonFinite(batches, scales, "gradient");

  result.learning_rate = LearningRate(options_.schedule, step());
  optimizer_.Step(result.learning_rate, clip_scale);
  MarkTrace(TraceEvent::Kind::kPhase, "optimizer");
  model_.ZeroGrad();
  result.step = step();
  result.loss = sum.loss;
  result.metrics = Means(sum.metrics);
  result.target_tokens = counts.targets;
  result.tokens = counts.tokens;
  MarkTrace(TraceEvent::Kind::kPhase, "step");
  result.seconds = watch.seconds();
  return result;
}

}  // namespace crosstalk
