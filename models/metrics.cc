#include "crosstalk/models/metrics.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

namespace {

constexpr MetricDisplay kDisplays[] = {
    {"ln_ppl", "ln(PPL)", true},  // mean -ln p of a target token, in nats
    {"nats_per_byte", "nats a byte", true},
    {"nats_per_word", "nats a word", true},
    {"byte_perplexity", "perplexity a byte", true},
    {"word_perplexity", "perplexity a word", true},
    {"score", "score", false, true},  // mean of the tasks' own measures
    {"masked_accuracy", "masked accuracy", false, true},
    {"sentence_accuracy", "sentence accuracy", false, true},  // of next sentence or sentence order
    {"task_loss", "task loss", true},                         // of an example, of a head that a task has
    {"task_accuracy", "task accuracy", false, true},
};

constexpr std::string_view kReserved[] = {
    "event",  "step",   "loss",          "loss_lower_bound", "constant_guess", "learning_rate",    "gradient_norm",
    "joules", "tokens", "target_tokens", "examples",         "seconds",        "tokens_per_second"};

}  // namespace

void SetMetrics(Json& json, const std::vector<Metric>& metrics) {
  for (const Metric& metric : metrics) json.Set(metric.name, std::isfinite(metric.value) ? Json(metric.value) : Json());
}

Json JsonForm<std::vector<Metric>>::Write(const std::vector<Metric>& metrics) {
  Json json = Json::MakeObject();
  SetMetrics(json, metrics);
  return json;
}

std::vector<Metric> JsonForm<std::vector<Metric>>::Read(const std::string& key, const Json& json,
                                                        const FieldOptions& options) {
  CROSSTALK_CHECK_FIELD(json.is_object() && !json.AsObject().empty(), key, "must be an object of numbers");
  std::vector<Metric> metrics;
  for (const auto& [name, value] : json.AsObject()) {
    const bool undefined = value.is_null() && !metrics.empty();
    metrics.push_back(
        {name, undefined ? std::nan("") : JsonForm<double>::Read(StrCat(key, ".", Excerpt(name)), value, options)});
  }
  return metrics;
}

void AddSums(std::vector<MetricSum>& sums, const std::vector<MetricSum>& more) {
  for (const MetricSum& one : more) {
    const auto found =
        std::find_if(sums.begin(), sums.end(), [&](const MetricSum& sum) { return sum.name == one.name; });
    if (found == sums.end()) {
      sums.push_back(one);
    } else {
      found->sum += one.sum;
      found->count += one.count;
    }
  }
}

std::vector<Metric> Means(const std::vector<MetricSum>& sums) {
  std::vector<Metric> means;
  for (const MetricSum& sum : sums) {
    CROSSTALK_DCHECK(std::find(std::begin(kReserved), std::end(kReserved), sum.name) == std::end(kReserved));
    means.push_back({sum.name, sum.count == 0 ? std::nan("") : sum.sum / static_cast<double>(sum.count)});
  }
  return means;
}

MetricDisplay DisplayOf(const Metric& metric) {
  for (const MetricDisplay& display : kDisplays) {
    if (metric.name == display.name) return display;
  }
  return {metric.name.c_str(), metric.name.c_str(), true, false};
}

double Score(const Metric& metric) { return DisplayOf(metric).lower_is_better ? metric.value : -metric.value; }

}  // namespace crosstalk
