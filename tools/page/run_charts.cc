#include "tools/page/run_charts.h"

#include <algorithm>
#include <cmath>
namespace crosstalk {
namespace {

// Of all charts of a page together, so that it stays below 5 MB.
constexpr size_t kMostPoints = 24'000, kMostPointsOfChart = 1800, kFewestPointsOfChart = 200;
// Curves that are looked at closer: those with so many points in their second half.
constexpr size_t kFewestCloser = 8;

const Series* Find(const std::vector<Series>& series, const std::string& name) {
  for (const Series& one : series) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

void AddNames(const std::vector<Series>& series, std::vector<std::string>& names) {
  for (const Series& one : series) {
    if (std::find(names.begin(), names.end(), one.name) == names.end()) names.push_back(one.name);
  }
}

Series Named(Series series, const std::string& name) {
  series.name = name;
  return series;
}

struct PlannedChart {
  LineChartOptions options;
  std::vector<Series> series;
};

std::vector<ChartMark> Marks(const RunRecord& run) {
  std::vector<ChartMark> marks;
  for (const RunEvent& event : run.Events()) {
    marks.push_back(
        {event.kind == RunEvent::Kind::kResumed ? "resumed" : "continued", static_cast<double>(event.step)});
  }
  return marks;
}

// What a held-out measure is compared with. Runs of several data have several: then none is drawn.
std::vector<ReferenceLine> References(const std::vector<RunRecord>& runs, const std::string& measure) {
  std::vector<ReferenceLine> lines;
  const auto add = [&lines](const char* label, double y) {
    for (const ReferenceLine& line : lines) {
      if (line.label == label && line.y == y) return;
    }
    lines.push_back({label, y});
  };
  for (const RunRecord& run : runs) {
    if (measure == "ln_ppl" && run.loss_lower_bound) add("entropy bound", *run.loss_lower_bound);
    for (const Metric& guess : run.constant_guess) {
      if (guess.name == measure) add("best constant guess", guess.value);
    }
  }
  return lines.size() > 1 ? std::vector<ReferenceLine>() : lines;
}

// The second half of the steps, where the first ones' fall does not decide the scale.
std::optional<PlannedChart> Closer(const PlannedChart& chart) {
  PlannedChart closer = chart;
  closer.options.title += ", second half";
  closer.options.references.clear();
  closer.options.width = ChartWidth::kColumn;
  double last = 0;
  for (const Series& one : chart.series) {
    if (!one.x.empty()) last = std::max(last, one.x.back());
  }
  size_t most = 0;
  for (Series& one : closer.series) {
    const auto from = std::lower_bound(one.x.begin(), one.x.end(), last / 2) - one.x.begin();
    one.x.erase(one.x.begin(), one.x.begin() + from);
    one.y.erase(one.y.begin(), one.y.begin() + from);
    most = std::max(most, one.x.size());
  }
  return most < kFewestCloser ? std::nullopt : std::optional<PlannedChart>(std::move(closer));
}

std::vector<PlannedChart> ChartsOfOne(const RunRecord& run) {
  std::vector<PlannedChart> charts;
  std::vector<std::string> shown;
  for (const Series& measure : run.held_out) {
    PlannedChart chart{ChartOptionsFor(measure.name, MeasureLabel(measure.name)), {}};
    chart.options.references = References({run}, measure.name);
    if (const Series* training = run.Training(measure.name)) chart.series.push_back(Named(*training, "training"));
    chart.series.push_back(Named(measure, "held-out"));
    charts.push_back(std::move(chart));
    shown.push_back(measure.name);
  }
  for (const Series& measure : run.training) {
    if (std::find(shown.begin(), shown.end(), measure.name) != shown.end()) continue;
    const std::string label = MeasureLabel(measure.name);
    charts.push_back({ChartOptionsFor(measure.name, label), {Named(measure, "training")}});
  }
  for (PlannedChart& chart : charts) chart.options.marks = Marks(run);
  return charts;
}

std::vector<PlannedChart> ChartsOfSeveral(const std::vector<RunRecord>& runs) {
  std::vector<PlannedChart> charts;
  std::vector<std::string> held_out, training;
  for (const RunRecord& run : runs) AddNames(run.held_out, held_out);
  for (const RunRecord& run : runs) AddNames(run.training, training);
  const auto add = [&](const std::string& measure, const std::string& title, bool of_training) {
    PlannedChart chart{ChartOptionsFor(measure, title), {}};
    if (!of_training) chart.options.references = References(runs, measure);
    for (const RunRecord& run : runs) {
      const Series* found = Find(of_training ? run.training : run.held_out, measure);
      // One of no points keeps its colour for the run in every chart.
      chart.series.push_back(found == nullptr ? Series{run.name, {}, {}} : Named(*found, run.name));
    }
    charts.push_back(std::move(chart));
  };
  for (const std::string& measure : held_out) add(measure, "held-out " + MeasureLabel(measure), false);
  for (const std::string& measure : training) {
    const bool both = std::find(held_out.begin(), held_out.end(), measure) != held_out.end();
    add(measure, (both ? "training " : "") + MeasureLabel(measure), true);
  }
  return charts;
}

}  // namespace

LineChartOptions ChartOptionsFor(const std::string& measure, const std::string& title) {
  LineChartOptions options;
  options.title = title;
  if (measure == "ln_ppl" || measure == "loss" || measure == "task_loss") options.y_label = "nats";
  if (DisplayOf({measure, 0}).is_share) {
    options.factor = 100;
    options.unit = " %";
  }
  if (measure == "gradient_norm") options.y_scale = AxisScale::kLogIfWide;
  options.y_from_zero = measure == "learning_rate" || measure == "tokens_per_second";
  return options;
}

std::string RunCharts(const std::vector<RunRecord>& runs) {
  std::vector<PlannedChart> charts = runs.size() == 1 ? ChartsOfOne(runs[0]) : ChartsOfSeveral(runs);
  if (charts.empty()) return "";
  charts[0].options.width = ChartWidth::kWide;
  if (std::optional<PlannedChart> closer = Closer(charts[0])) {
    charts[0].options.width = ChartWidth::kColumn;
    charts.insert(charts.begin() + 1, *std::move(closer));
  }
  const size_t most = std::clamp(kMostPoints / charts.size(), kFewestPointsOfChart, kMostPointsOfChart);
  std::string html;
  for (PlannedChart& chart : charts) {
    chart.options.most_points = most;
    html += LineChart(chart.options, chart.series);
  }
  return html.empty() ? "" : "<div class=\"charts\">\n" + html + "</div>\n";
}

}  // namespace crosstalk
