#include "crosstalk/models/training/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "crosstalk/models/training/objectives/task_head.h"
#include "crosstalk/models/training/task_results.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/measure.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

EvaluationResult Evaluate(const Model& model, const EvaluationBatches& batches, const Observer& observer) {
  const Stopwatch watch;
  EvaluationResult result = ResultOf({SumsOf(model, batches, 0, batches.num_batches(), observer)});
  result.seconds = watch.seconds();
  return result;
}

EvaluationSums SumsOf(const Model& model, const EvaluationBatches& batches, int64_t begin, int64_t end,
                      const Observer& observer) {
  const ContextScope no_grad = NoGrad();
  EvaluationSums sums;
  for (int64_t i = begin; i < end; ++i) {
    ThrowIfStopped(observer.stop);
    const Batch batch = batches.Get(i);
    sums.batches.push_back(model.Loss(batch, {}, ForwardContext()).sums);
    sums.tokens += batch.targets;
    sums.examples += batch.rows();
    if (observer.progress) observer.progress(i + 1 - begin, end - begin);
  }
  return sums;
}

EvaluationResult ResultOf(const std::vector<EvaluationSums>& shares) {
  EvaluationResult result;
  std::vector<MetricSum> sums;
  for (const EvaluationSums& share : shares) {
    for (const std::vector<MetricSum>& batch : share.batches) AddSums(sums, batch);
    result.tokens += share.tokens;
    result.examples += share.examples;
  }
  result.metrics = Means(sums);
  for (const MetricSum& sum : sums) {
    if (sum.count == 0) Fail(ErrorKind::kData, "the held-out text gives nothing to measure ", sum.name, " on");
  }
  for (const Metric& metric : result.metrics) {
    if (std::isfinite(metric.value)) continue;
    Fail(ErrorKind::kNumerical, "the held-out ", DisplayOf(metric).label,
         " is not finite: the model's parameters have diverged");
  }
  return result;
}

void SetMetrics(Json& json, const std::vector<Metric>& metrics) {
  for (const Metric& metric : metrics) json.Set(metric.name, std::isfinite(metric.value) ? Json(metric.value) : Json());
}

namespace {

Json MetricsJson(const std::vector<Metric>& metrics) {
  Json json = Json::MakeObject();
  SetMetrics(json, metrics);
  return json;
}

}  // namespace

Json ToJson(const RunEvaluation& evaluation) {
  Json json = Json::MakeObject({{"step", evaluation.step}});
  SetMetrics(json, evaluation.result.metrics);
  json.Set("loss_lower_bound", evaluation.baselines.entropy_bound ? Json(*evaluation.baselines.entropy_bound) : Json());
  if (!evaluation.baselines.constant_guess.empty())
    json.Set("constant_guess", MetricsJson(evaluation.baselines.constant_guess));
  return json.Set("tokens", evaluation.result.tokens).Set("examples", evaluation.result.examples);
}

Json EvaluationEvent(const RunEvaluation& evaluation) {
  Json json = Json::MakeObject({{"event", "eval"}});
  const Json members = ToJson(evaluation);
  for (const auto& [key, value] : members.AsObject()) json.Set(key, value);
  return json.Set("seconds", evaluation.result.seconds);
}

// {"step", "metrics": {…}, "loss_lower_bound", "tokens", "examples", "seconds"}, and {"constant_guess": {…}} where
// there is one.
Json EvaluationState(const RunEvaluation& evaluation) {
  Json state = Json::MakeObject(
      {{"step", evaluation.step},
       {"metrics", MetricsJson(evaluation.result.metrics)},
       {"loss_lower_bound", evaluation.baselines.entropy_bound ? Json(*evaluation.baselines.entropy_bound) : Json()},
       {"tokens", evaluation.result.tokens},
       {"examples", evaluation.result.examples},
       {"seconds", evaluation.result.seconds}});
  if (!evaluation.baselines.constant_guess.empty())
    state.Set("constant_guess", MetricsJson(evaluation.baselines.constant_guess));
  return state;
}

RunEvaluation EvaluationFromState(const JsonReader& reader, int64_t step) {
  const auto finite = [&](const char* key) {
    const double value = reader.Double(key);
    if (!std::isfinite(value)) reader.FailAt(key, "is not a finite number");
    return value;
  };
  const auto metrics = [&](const char* key) {
    const Json& object = reader.Value(key);
    if (!object.is_object() || object.AsObject().empty()) reader.FailAt(key, "must be an object of numbers");
    std::vector<Metric> list;
    for (const auto& [name, value] : object.AsObject()) {
      // Of tasks, all but the first, the score, may be undefined.
      const bool undefined = value.is_null() && !list.empty();
      if (!undefined && (!value.is_number() || !std::isfinite(value.AsDouble()))) {
        reader.FailAt(key, Excerpt(name), " must be a number");
      }
      list.push_back({name, undefined ? std::numeric_limits<double>::quiet_NaN() : value.AsDouble()});
    }
    return list;
  };
  RunEvaluation evaluation;
  evaluation.step = reader.Int("step", 0, step);
  evaluation.result.metrics = metrics("metrics");
  if (reader.Has("constant_guess")) evaluation.baselines.constant_guess = metrics("constant_guess");
  if (!reader.Value("loss_lower_bound").is_null()) evaluation.baselines.entropy_bound = finite("loss_lower_bound");
  evaluation.result.tokens = reader.Int("tokens", 0, INT64_MAX);
  evaluation.result.examples = reader.Int("examples", 1, INT64_MAX);
  evaluation.result.seconds = finite("seconds");
  if (evaluation.result.seconds < 0) reader.FailAt("seconds", "is less than 0");
  return evaluation;
}

namespace {

class HeldOutText : public HeldOut {
 public:
  explicit HeldOutText(std::unique_ptr<EvaluationBatches> batches) : batches_(std::move(batches)) {}

  EvaluationResult Evaluate(const Model& model, const Observer& observer) const override {
    return crosstalk::Evaluate(model, *batches_, observer);
  }
  Baselines FindBaselines(const StopRequest& stop) const override {
    return {.entropy_bound = batches_->EntropyBound(stop), .constant_guess = batches_->ConstantGuess(stop)};
  }
  const EvaluationBatches* batches() const override { return batches_.get(); }

 private:
  std::unique_ptr<EvaluationBatches> batches_;
};

// The held-out rows of a task, some of which have answers.
struct MeasuredTask {
  const TaskType* type;
  TaskRows rows;
};

class HeldOutTasks : public HeldOut {
 public:
  HeldOutTasks(const TrainingConfig& config, const TaskSet& tasks, std::shared_ptr<const Tokenizer> tokenizer)
      : config_(config), tokenizer_(std::move(tokenizer)) {
    for (const TaskData& task : tasks.tasks) {
      const auto has_answer = [](const TaskRow& row) { return row.labelled; };
      if (task.dev == nullptr || std::none_of(task.dev->begin(), task.dev->end(), has_answer)) continue;
      tasks_.push_back({task.type, task.dev});
    }
  }

  // SQuAD 2.0's threshold is the same at all steps.
  EvaluationResult Evaluate(const Model& model, const Observer& observer) const override {
    const Stopwatch watch;
    EvaluationResult result;
    int64_t rows = 0, before = 0;
    for (const MeasuredTask& task : tasks_) rows += std::ssize(*task.rows);
    std::vector<TaskResult> results;
    for (const MeasuredTask& task : tasks_) {
      const Observer answering = {.stop = observer.stop, .progress = [&](int64_t done, int64_t) {
                                    if (observer.progress) observer.progress(before + done, rows);
                                  }};
      results.push_back(
          AnswerTask(config_, model, *tokenizer_, *task.type, TaskSplit::kDev, *task.rows, answering, kEvenNoAnswer));
      before += std::ssize(*task.rows);
    }
    result.metrics = MetricsOf(results);
    result.examples = before;
    result.seconds = watch.seconds();
    return result;
  }

  Baselines FindBaselines(const StopRequest& stop) const override {
    std::vector<TaskResult> results;
    for (const MeasuredTask& task : tasks_) {
      ThrowIfStopped(stop);
      TaskResult guess;
      guess.type = task.type;
      guess.measures = ConstantGuessOf(*task.type, *task.rows);
      results.push_back(std::move(guess));
    }
    return {.constant_guess = MetricsOf(results)};
  }

 private:
  static std::vector<Metric> MetricsOf(const std::vector<TaskResult>& results) {
    std::vector<Metric> metrics = {{"score", MeanScore(results)}};
    for (const TaskResult& result : results) {
      for (const Metric& one : result.measures) {
        metrics.push_back({StrCat(result.type->name, "_", one.name), one.value});
      }
    }
    return metrics;
  }

  TrainingConfig config_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<MeasuredTask> tasks_;
};

}  // namespace

std::unique_ptr<HeldOut> MakeHeldOutText(std::unique_ptr<EvaluationBatches> batches) {
  return std::make_unique<HeldOutText>(std::move(batches));
}

std::unique_ptr<HeldOut> MakeHeldOutTasks(const TrainingConfig& config, std::shared_ptr<const TaskSet> tasks,
                                          std::shared_ptr<const Tokenizer> tokenizer) {
  return std::make_unique<HeldOutTasks>(config, *tasks, std::move(tokenizer));
}

}  // namespace crosstalk
