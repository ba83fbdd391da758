#include "crosstalk/models/metrics.h"

#include <algorithm>

namespace crosstalk {

namespace {

constexpr MetricDisplay kDisplays[] = {
    {"ln_ppl", "ln(PPL)", true},  // mean -ln p of a target token, in nats
};

}  // namespace

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
    means.push_back({sum.name, sum.count == 0 ? 0.0 : sum.sum / static_cast<double>(sum.count)});
  }
  return means;
}

MetricDisplay DisplayOf(const Metric& metric) {
  for (const MetricDisplay& display : kDisplays) {
    if (metric.name == display.name) return display;
  }
  return {metric.name.c_str(), metric.name.c_str(), true};
}

double Score(const Metric& metric) { return DisplayOf(metric).lower_is_better ? metric.value : -metric.value; }

}  // namespace crosstalk
