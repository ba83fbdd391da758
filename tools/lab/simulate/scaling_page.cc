#include "tools/lab/simulate/scaling_page.h"

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "tools/cli/format.h"
#include "tools/lab/simulate/scaling_text.h"
#include "tools/page/chart.h"
#include "tools/page/drawing.h"
#include "tools/page/page.h"
#include "tools/page/table.h"

namespace crosstalk {
namespace {

struct Panel {
  LineChartOptions options;
  std::vector<Series> series;
};

// A curve a network; strong scaling beside what R ranks would give if nothing had to be exchanged.
Panel PanelOf(ScalingKind kind, const std::vector<ScalingCurve>& curves) {
  const bool strong = kind == ScalingKind::kStrong;
  Panel panel;
  panel.options.title = strong ? "Simulated strong scaling: speed-up" : "Simulated weak scaling: efficiency";
  panel.options.x_label = "ranks";
  panel.options.x_scale = AxisScale::kDoubling;
  if (strong) {
    panel.options.y_scale = AxisScale::kLog;
  } else {
    panel.options.y_from_zero = true;
    panel.options.factor = 100;
    panel.options.unit = " %";
  }
  Series ideal{.name = "ideal", .x = {}, .y = {}};
  for (const ScalingCurve& curve : curves) {
    if (curve.kind != kind) continue;
    Series series{.name = curve.network.name, .x = {}, .y = {}};
    for (const ScalingPoint& point : curve.points) {
      series.x.push_back(point.ranks);
      series.y.push_back(strong ? point.SpeedUp() : point.efficiency);
    }
    ideal.x = series.x;
    panel.series.push_back(std::move(series));
  }
  ideal.y = ideal.x;
  if (strong) panel.series.push_back(std::move(ideal));
  return panel;
}

std::string HtmlOf(const ScalingCurve& curve) {
  const TextTable table = TableOf(curve);
  std::vector<std::vector<TableCell>> rows;
  for (const std::vector<std::string>& row : table.rows) rows.emplace_back(row.begin(), row.end());
  return HtmlTable(table.header, rows, {.caption = TitleOf(curve)});
}

// The height in StandaloneSvg's text.
int HeightOf(const std::string& svg) {
  const std::string name = "\" height=\"";
  return std::atoi(svg.c_str() + svg.find(name) + name.size());
}

}  // namespace

std::string ScalingPage(const StepRecording& recording, const std::vector<ScalingCurve>& curves) {
  Page page("Simulated scaling of a training step");
  page.SetKind("Crosstalk: simulated");
  page.SetLead(SimulatedNote());
  std::vector<std::vector<TableCell>> facts;
  for (const auto& [name, value] : RecordingFacts(recording)) facts.push_back({name, value});
  page.AddSection("The recording", HtmlTable({"", "measured"}, facts));
  for (const ScalingKind kind : {ScalingKind::kStrong, ScalingKind::kWeak}) {
    const Panel panel = PanelOf(kind, curves);
    std::string html = LineChart(panel.options, panel.series) + "<p>" + EscapeHtml(ColumnsNote()) + "</p>\n";
    for (const ScalingCurve& curve : curves) {
      if (curve.kind == kind && !curve.points.empty()) html += HtmlOf(curve);
    }
    const bool strong = kind == ScalingKind::kStrong;
    page.AddSection(strong ? "Strong scaling, simulated" : "Weak scaling, simulated", html);
  }
  return page.Html();
}

std::string ScalingSvg(const StepRecording& recording, const std::vector<ScalingCurve>& curves) {
  constexpr int kWidth = 760, kLine = 20;
  std::string header, panels;
  int height = 8;
  std::vector<std::pair<std::string, std::string>> facts = RecordingFacts(recording);
  facts.insert(facts.begin(), {"Simulated", "from one recorded step and a model of the network"});
  for (const auto& [name, value] : facts) {
    height += kLine;
    header +=
        StrCat("<text class=\"label\" x=\"24\" y=\"", height, "\">", EscapeHtml(name + ": " + value), "</text>\n");
  }
  height += kLine / 2;
  for (const ScalingKind kind : {ScalingKind::kStrong, ScalingKind::kWeak}) {
    const Panel panel = PanelOf(kind, curves);
    const std::string svg = StandaloneSvg(panel.options, panel.series);
    if (svg.empty()) continue;
    panels += StrCat("<svg y=\"", height, "\"", svg.substr(4));
    height += HeightOf(svg);
  }
  return StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ", height, "\" width=\"", kWidth,
                "\" height=\"", height, "\" role=\"img\">\n<title>", EscapeHtml(SimulatedNote()), "</title>\n",
                FileStyle(), "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n", header, panels, "</svg>\n");
}

}  // namespace crosstalk
