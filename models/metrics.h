// Metrics: what is measured of a model, as a list of names and values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/field_value.h"
#include "crosstalk/runtime/json.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// A mean in the making: Σ over what has been seen, and how much that was. Sums of several batches are added up.
struct MetricSum {
  std::string name;
  double sum = 0;
  int64_t count = 0;
};

struct Metric {
  std::string name;  // "ln_ppl": as in metrics.jsonl
  double value = 0;
};

// Adds each as a member under its name; one that is not finite is null.
void SetMetrics(Json& json, const std::vector<Metric>& metrics);
// {"ln_ppl": 1.2, …}. One that is not finite is null; the first, the score, is read only as a number.
template <>
struct JsonForm<std::vector<Metric>> {
  static constexpr FieldType kType = FieldType::kObject;
  static Json Write(const std::vector<Metric>& metrics);
  static std::vector<Metric> Read(const std::string& key, const Json& json, const FieldOptions& options);
};

// Adds each of `more` to the one of its name, or appends it.
void AddSums(std::vector<MetricSum>& sums, const std::vector<MetricSum>& more);
// sum / count, NaN where nothing was counted. Names are members of lines of metrics.jsonl: one that stands there
// already for something else ("step", "tokens", …) is a mistake of the model's, and throws std::logic_error.
std::vector<Metric> Means(const std::vector<MetricSum>& sums);

// How a metric is shown, and which way it is better. A name that is not in the table of metrics.cc is shown as it is,
// and lower is better.
struct MetricDisplay {
  const char* name;
  const char* label;  // "ln(PPL)"
  bool lower_is_better;
  bool is_share = false;  // of 1: people read it in per cent
};
MetricDisplay DisplayOf(const Metric& metric);

// The value with its sign such that lower is better: what checkpoints are ranked by.
double Score(const Metric& metric);

}  // namespace crosstalk
#pragma GCC visibility pop
