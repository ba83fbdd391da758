#include "crosstalk/models/training/evaluation.h"

#include <cmath>

#include "crosstalk/autograd/scopes.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/stopwatch.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

EvaluationResult Evaluate(const Model& model, const EvaluationBatches& batches, const EvaluationObserver& observer) {
  const Stopwatch watch;
  const NoGradScope no_grad;
  EvaluationResult result;
  std::vector<MetricSum> sums;
  for (int64_t i = 0; i < batches.num_batches(); ++i) {
    if (observer.stop && observer.stop()) {
      result.finished = false;
      break;
    }
    const Batch batch = batches.Get(i);
    AddSums(sums, model.Loss(batch, {}, ForwardContext()).sums);
    result.tokens += batch.targets;
    result.examples += batch.rows();
    if (observer.progress) observer.progress(i + 1, batches.num_batches());
  }
  result.metrics = Means(sums);
  result.seconds = watch.seconds();
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
  for (const Metric& metric : metrics) json.Set(metric.name, metric.value);
}

Json ToJson(const RunEvaluation& evaluation) {
  Json json = Json::MakeObject({{"step", evaluation.step}});
  SetMetrics(json, evaluation.result.metrics);
  return json.Set("loss_lower_bound", evaluation.loss_lower_bound ? Json(*evaluation.loss_lower_bound) : Json())
      .Set("tokens", evaluation.result.tokens)
      .Set("examples", evaluation.result.examples);
}

Json EvaluationEvent(const RunEvaluation& evaluation) {
  Json json = Json::MakeObject({{"event", "eval"}});
  const Json members = ToJson(evaluation);
  for (const auto& [key, value] : members.AsObject()) json.Set(key, value);
  return json.Set("seconds", evaluation.result.seconds);
}

// {"step", "metrics": {…}, "loss_lower_bound", "tokens", "examples", "seconds"}
Json EvaluationState(const RunEvaluation& evaluation) {
  Json metrics = Json::MakeObject();
  SetMetrics(metrics, evaluation.result.metrics);
  return Json::MakeObject(
      {{"step", evaluation.step},
       {"metrics", metrics},
       {"loss_lower_bound", evaluation.loss_lower_bound ? Json(*evaluation.loss_lower_bound) : Json()},
       {"tokens", evaluation.result.tokens},
       {"examples", evaluation.result.examples},
       {"seconds", evaluation.result.seconds}});
}

RunEvaluation EvaluationFromState(const JsonReader& reader, int64_t step) {
  const auto finite = [&](const char* key) {
    const double value = reader.Double(key);
    if (!std::isfinite(value)) reader.FailAt(key, "is not a finite number");
    return value;
  };
  RunEvaluation evaluation;
  evaluation.step = reader.Int("step", 0, step);
  const Json& metrics = reader.Value("metrics");
  if (!metrics.is_object() || metrics.AsObject().empty()) reader.FailAt("metrics", "must be an object of numbers");
  for (const auto& [name, value] : metrics.AsObject()) {
    if (!value.is_number() || !std::isfinite(value.AsDouble())) {
      reader.FailAt("metrics", Excerpt(name), " must be a number");
    }
    evaluation.result.metrics.push_back({name, value.AsDouble()});
  }
  if (!reader.Value("loss_lower_bound").is_null()) evaluation.loss_lower_bound = finite("loss_lower_bound");
  evaluation.result.tokens = reader.Int("tokens", 1, INT64_MAX);
  evaluation.result.examples = reader.Int("examples", 1, INT64_MAX);
  evaluation.result.seconds = finite("seconds");
  if (evaluation.result.seconds < 0) reader.FailAt("seconds", "is less than 0");
  return evaluation;
}

}  // namespace crosstalk
