#include "crosstalk/models/training/loop.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "crosstalk/autograd/tape.h"
#include "crosstalk/autograd/variable.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/nn/optim/optimizer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/measure.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"

namespace crosstalk {

LoopOptions MakeLoopOptions(const OptimizationConfig& config) {
  return {.schedule = MakeSchedule(config),
          .clip_norm = config.clip.value_or(0),
          .loss = MakeLossOptions(config),
          .denominator = config.loss_denominator,
          .seed = config.seed};
}

Json StepEvent(const StepResult& step) {
  Json json = Json::MakeObject({{"event", "train"}, {"step", step.step}, {"loss", step.loss}});
  SetMetrics(json, step.metrics);
  if (step.exchange.bytes_sent > 0) {
    json.Set("bytes_sent", step.exchange.bytes_sent)
        .Set("exchange_seconds", step.exchange.exchange_seconds)
        .Set("waited_seconds", step.exchange.waited_seconds);
  }
  return json.Set("learning_rate", step.learning_rate)
      .Set("gradient_norm", step.gradient_norm)
      .Set("target_tokens", step.target_tokens)
      .Set("tokens", step.tokens)
      .Set("seconds", step.seconds)
      .Set("tokens_per_second", static_cast<double>(step.tokens) / step.seconds);
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
  for (const NamedParameter& parameter : parameters_) leaves_.push_back(parameter.value);
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

// Adds a part's gradients to those that the parameters hold, unless the loss is not finite. `done`, if there is
// one, is told of each as soon as it is complete.
LossSum Loop::ComputePart(const Batch& batch, int64_t part, const LossScales& scales, const GradientDone& done,
                          StepResult* result) const {
  const ForwardContext context{ForwardContext::Phase::kTraining, options_.seed, static_cast<uint32_t>(step()),
                               static_cast<uint32_t>(part)};
  const Stopwatch forward;
  const LossResult loss = model_.Loss(batch, options_.loss, context);
  result->forward_seconds += forward.seconds();
  const LossSum sum{.loss = loss.ScaledValue(scales), .metrics = loss.sums};
  if (!std::isfinite(sum.loss)) return sum;
  const Stopwatch backward;
  if (done) {
    Backward(loss.Scaled(scales), leaves_, done);
  } else {
    Backward(loss.Scaled(scales));
  }
  result->backward_seconds += backward.seconds();
  return sum;
}

void Loop::ReducePart(const Batch& batch, int64_t part, const LossScales& scales, StepResult* result) {
  std::vector<bool> given(parameters_.size());
  const auto give = [&](size_t i) {
    const Variable& leaf = leaves_[i];
    Tensor gradient;
    if (leaf.requires_grad()) {
      gradient = leaf.grad();
      leaf.ZeroGrad();
    }
    given[i] = true;
    reducer_.AddGradient(part, i, std::move(gradient));
  };
  LossSum sum = ComputePart(batch, part, scales, reducer_.overlaps() ? GradientDone(give) : GradientDone(), result);
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i]) give(i);
  }
  reducer_.AddLoss(part, std::move(sum));
}

// Each part on one thread, with gradients of its own; then each parameter's sum on one thread.
void Loop::ReduceBesideEachOther(const std::vector<Batch>& batches, const LossScales& scales, StepResult* result) {
  const std::vector<int64_t>& parts = reducer_.parts();
  std::vector<LeafGradients> gradients;
  for (size_t i = 0; i < parts.size(); ++i) gradients.emplace_back(leaves_);
  std::vector<LossSum> sums(parts.size());
  std::vector<StepResult> times(parts.size());
  const OpContext context = CurrentContext();
  const auto compute = [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    const ContextScope as_here(context);
    const ContextScope apart(&OpContext::leaf_gradients, &gradients[at]);
    sums[at] = ComputePart(batches[at], parts[at], scales, {}, &times[at]);
  };
  ParallelFor(std::ssize(parts), compute, TileOrder::kLocal);
  ParallelFor(std::ssize(leaves_), [&](int64_t parameter) {
    const auto at = static_cast<size_t>(parameter);
    for (size_t i = 0; i < parts.size(); ++i) reducer_.AddGradient(parts[i], at, gradients[i].Take(at));
  });
  const double threads = std::min(static_cast<double>(NumThreads()), static_cast<double>(parts.size()));
  for (size_t i = 0; i < parts.size(); ++i) {
    reducer_.AddLoss(parts[i], std::move(sums[i]));
    result->forward_seconds += times[i].forward_seconds / threads;
    result->backward_seconds += times[i].backward_seconds / threads;
  }
}

void Loop::ZeroGradients() const {
  for (const Variable& leaf : leaves_) {
    if (leaf.requires_grad()) leaf.ZeroGrad();
  }
}

void Loop::ExplainNonFinite(const std::vector<Batch>& batches, const LossScales& scales, const char* what) const {
  const std::string where =
      StrCat("step ", optimizer_.step() + 1, ": the ", what, " is not finite; no update was made. ");
  const std::string gradient = DescribeNonFiniteGradient(parameters_);
  ZeroGradients();
  std::string first;
  try {
    const ContextScope check(&OpContext::finite_checks, true);
    StepResult ignored;
    for (size_t i = 0; i < batches.size(); ++i) ComputePart(batches[i], reducer_.parts()[i], scales, {}, &ignored);
    if (!gradient.empty()) first = "First seen in " + gradient + ".";
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNumerical) throw;
    first = StrCat("It began here: ", error.what(), ".");
  }
  ZeroGradients();
  first = reducer_.ShareText(first);
  if (first.empty()) first = "The sum of its squares overflows.";
  Fail(ErrorKind::kNumerical, where, first, " Try a smaller ", FieldName{"learning_rate"}, ", a longer ",
       FieldName{"warmup"}, ", or ", FieldName{"clip", "1"}, ".");
}

StepResult Loop::Step() {
  const Stopwatch watch;
  StepResult result;
  reducer_.Start();
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
  counts = reducer_.Begin(counts, parameters_.size());
  MarkTrace(TraceEvent::Kind::kPhase, "batch");
  if (counts.targets == 0) Fail(ErrorKind::kData, "step ", step() + 1, ": the batch has no target tokens");
  const int64_t denominator = options_.denominator == LossDenominator::kTokens ? counts.targets : counts.positions;
  const LossScales scales = {1.0 / static_cast<double>(denominator), 1.0 / static_cast<double>(counts.examples)};

  ZeroGradients();
  // What follows the ops one by one follows one thread's.
  const bool followed = CurrentContext().trace != nullptr || CurrentContext().multiplications != nullptr;
  if (!followed && !reducer_.overlaps() && AreBesideEachOther(std::ssize(batches), parameters_)) {
    ReduceBesideEachOther(batches, scales, &result);
  } else {
    for (size_t i = 0; i < batches.size(); ++i) ReducePart(batches[i], reducer_.parts()[i], scales, &result);
  }
  StepSum sum = reducer_.Finish();
  if (!std::isfinite(sum.loss.loss)) ExplainNonFinite(batches, scales, "loss");
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (sum.gradients[i].defined()) leaves_[i].SetGrad(std::move(sum.gradients[i]));
  }
  MarkTrace(TraceEvent::Kind::kPhase, "gradients");
  std::vector<double> squares = GradientSquares(parameters_);
  reducer_.ShareSquares(squares);
  result.gradient_norm = NormOf(squares);
  MarkTrace(TraceEvent::Kind::kPhase, "gradient norm");
  const double clip_scale = ClipScale(result.gradient_norm, options_.clip_norm);
  if (!std::isfinite(clip_scale)) ExplainNonFinite(batches, scales, "gradient");

  result.learning_rate = LearningRate(options_.schedule, step());
  optimizer_.Step(result.learning_rate, clip_scale);
  MarkTrace(TraceEvent::Kind::kPhase, "optimizer");
  ZeroGradients();
  reducer_.ShareParameters();
  result.step = step();
  result.loss = sum.loss.loss;
  result.metrics = Means(sum.loss.metrics);
  result.target_tokens = counts.targets;
  result.tokens = counts.tokens;
  MarkTrace(TraceEvent::Kind::kPhase, "step");
  result.exchange = reducer_.exchange();
  result.seconds = watch.seconds();
  return result;
}

namespace {

std::unique_ptr<Model> FirstModel(const TrainingConfig& config, const Vocabulary& vocabulary) {
  std::unique_ptr<Model> model = MakeModel(ConfigureModel(config, vocabulary), config.optimization.seed);
  PrepareModel(config.optimization, *model);
  return model;
}

}  // namespace

TrainingInMemory::TrainingInMemory(const TrainingConfig& config, const TrainingData& data, const Vocabulary& vocabulary,
                                   const LoopOptions& options, GradientReducer* reducer, const StopRequest& stop)
    : model_(FirstModel(config, vocabulary)),
      optimizer_(MakeOptimizer(config.optimization, model_->Parameters())),
      alone_(config.optimization.shards),
      given_(reducer),
      batches_(MakeBatches(config, data, this->reducer().parts(), stop)),
      loop_(*model_, *batches_, *optimizer_, this->reducer(), options) {}

TrainingInMemory::TrainingInMemory(const ResolvedConfig& config, const TrainingData& data, RankGroup* ranks)
    : model_(FirstModel(*config, VocabularyOf(*config, data.tokenizer.get()))),
      optimizer_(MakeOwnOptimizer(*config, *model_, 0, ranks == nullptr ? 1 : ranks->size(), StateTransfer::kNone, {})),
      alone_(config->optimization.shards),
      ranks_(ranks == nullptr ? nullptr
                              : std::make_unique<RankLeader>(*ranks, config, data, *model_, StateTransfer::kNone,
                                                             std::vector<NamedTensor>())),
      batches_(MakeBatches(*config, data, reducer().parts())),
      loop_(*model_, *batches_, *optimizer_, reducer(), MakeLoopOptions(config->optimization)) {}

GradientReducer& TrainingInMemory::reducer() {
  if (given_ != nullptr) return *given_;
  return ranks_ ? ranks_->reducer() : alone_;
}

}  // namespace crosstalk
