#include "crosstalk/models/training/trainer.h"

#include <chrono>
#include <cmath>

#include "crosstalk/autograd/ops_elementwise.h"
#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/optim/clipping.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {

namespace {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

int64_t CountTokens(const Tensor& ids) {
  int64_t count = 0;
  const int32_t* data = ids.data<int32_t>();
  for (int64_t i = 0; i < ids.num_elements(); ++i) count += data[i] != kPadId;
  return count;
}

}  // namespace

Trainer::Trainer(const T5& model, Optimizer& optimizer, BatchSource& batches, const TrainerOptions& options)
    : model_(model), optimizer_(optimizer), batches_(batches), options_(options), parameters_(model.Parameters()) {
  options_.schedule.Validate();
  CROSSTALK_CHECK(options_.micro_batches >= 1, "trainer: micro_batches is ", options_.micro_batches,
                  ", and must be at least 1");
}

// Gradients of Σ over micro-batches of scale · (loss sum), added in the order of the micro-batches.
Trainer::Sums Trainer::ForwardBackward(const std::vector<Seq2SeqBatch>& batches, double scale) const {
  model_.ZeroGrad();
  Sums sums;
  for (size_t i = 0; i < batches.size(); ++i) {
    const ForwardContext context{ForwardContext::Phase::kTraining, options_.seed,
                                 static_cast<uint32_t>(optimizer_.step()), static_cast<uint32_t>(i)};
    const T5Loss loss = model_.Loss(batches[i].inputs, batches[i].targets, {.z_loss = options_.z_loss}, context);
    const double loss_sum = loss.sum.value().Item();
    sums.loss += loss_sum * scale;
    sums.nll += loss.nll_sum;
    if (!std::isfinite(loss_sum)) return sums;
    Backward(Scale(loss.sum, scale));
  }
  return sums;
}

void Trainer::ExplainNonFinite(const std::vector<Seq2SeqBatch>& batches, double scale, const char* what) const {
  const std::string where =
      StrCat("step ", optimizer_.step() + 1, ": the ", what, " is not finite; no update was made. ");
  const std::string advice = " Try a smaller --learning-rate, a longer --warmup or --clip 1.";
  std::string gradient = DescribeNonFiniteGradient(parameters_);
  std::string first;
  try {
    const FiniteCheckScope check;
    ForwardBackward(batches, scale);
    if (gradient.empty()) gradient = "the sum of the squared gradients overflows";
    first = "First seen in " + gradient + ".";
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNumerical) throw;
    first = StrCat("It began here: ", error.what(), ".");
  }
  model_.ZeroGrad();
  Fail(ErrorKind::kNumerical, where, first, advice);
}

StepResult Trainer::Step() {
  const Stopwatch watch;
  StepResult result;
  const int64_t step = optimizer_.step();
  std::vector<Seq2SeqBatch> batches;
  int64_t positions = 0;
  for (int64_t i = 0; i < options_.micro_batches; ++i) {
    batches.push_back(batches_.Get(step, i));
    positions += batches.back().targets.num_elements();
    result.target_tokens += CountTokens(batches.back().targets);
    result.tokens += CountTokens(batches.back().inputs);
  }
  result.tokens += result.target_tokens;
  if (result.target_tokens == 0) Fail(ErrorKind::kData, "step ", step + 1, ": the batch has no target tokens");
  const int64_t denominator = options_.denominator == LossDenominator::kTargetTokens ? result.target_tokens : positions;
  const double scale = 1.0 / static_cast<double>(denominator);

  const Sums sums = ForwardBackward(batches, scale);
  if (!std::isfinite(sums.loss)) ExplainNonFinite(batches, scale, "loss");
  result.gradient_norm = GradientNorm(parameters_);
  if (!std::isfinite(result.gradient_norm)) ExplainNonFinite(batches, scale, "gradient");

  result.learning_rate = LearningRate(options_.schedule, step);
  optimizer_.Step(result.learning_rate, ClipScale(result.gradient_norm, options_.clip_norm));
  model_.ZeroGrad();
  result.step = step + 1;
  result.loss = sums.loss;
  result.ln_ppl = sums.nll / static_cast<double>(result.target_tokens);
  result.seconds = watch.seconds();
  return result;
}

EvaluationResult Evaluate(const T5& model, const EvaluationBatches& batches, const std::function<bool()>& stop) {
  const Stopwatch watch;
  const NoGradScope no_grad;
  EvaluationResult result;
  double nll = 0;
  for (int64_t i = 0; i < batches.num_batches(); ++i) {
    if (stop && stop()) {
      result.finished = false;
      break;
    }
    const Seq2SeqBatch batch = batches.Get(i);
    const T5Loss loss = model.Loss(batch.inputs, batch.targets, {.z_loss = 0}, ForwardContext());
    nll += loss.nll_sum;
    result.tokens += loss.tokens;
    result.examples += batch.inputs.size(0);
  }
  result.seconds = watch.seconds();
  if (result.tokens == 0) return result;
  result.ln_ppl = nll / static_cast<double>(result.tokens);
  if (!std::isfinite(result.ln_ppl)) {
    Fail(ErrorKind::kNumerical, "the held-out ln(PPL) is not finite: the model's parameters have diverged");
  }
  return result;
}

}  // namespace crosstalk
