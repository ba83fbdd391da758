#include "tools/lab/simulate/scaling.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "tools/cli/output.h"
#include "tools/page/figure.h"
#include "tools/page/page.h"

namespace crosstalk {
namespace {

// The networks' points of one number of ranks.
std::vector<ScalingPoint> PointsOf(const StepRecording& recording, ScalingKind kind, int ranks, double seconds_alone,
                                   const std::vector<Network>& networks, const StopRequest& stop) {
  const int64_t parts = kind == ScalingKind::kStrong ? recording.parts : ranks * recording.parts;
  const int64_t memory = RankMemoryBytes(recording, ranks, parts);
  std::vector<ScalingPoint> points;
  for (const Network& network : networks) {
    if (stop && stop()) throw Interrupted();
    const ReplayResult replay = ReplayStep(recording, ranks, parts, network);
    ScalingPoint point{.ranks = ranks, .parts = parts, .seconds = replay.seconds};
    point.efficiency = seconds_alone / replay.seconds / (kind == ScalingKind::kStrong ? ranks : 1);
    if (replay.gradient_bytes > 0) point.hidden = replay.hidden_bytes / replay.gradient_bytes;
    const std::vector<double>& sent = replay.sent_bytes;
    point.mean_sent_bytes = std::accumulate(sent.begin(), sent.end(), 0.0) / static_cast<double>(sent.size());
    point.most_sent_bytes = *std::max_element(sent.begin(), sent.end());
    point.memory_bytes = memory;
    point.messages = replay.messages;
    point.small_seconds = ReplayStep(recording, ranks, parts, network, Replayed::kSmallMessages).seconds;
    point.waited_seconds = replay.waited_seconds;
    points.push_back(point);
  }
  return points;
}

double WaitedFor(const ScalingPoint& point, Traffic traffic) {
  return point.waited_seconds[static_cast<size_t>(traffic)];
}

Json ToJson(const ScalingPoint& point) {
  return Json::MakeObject({{"ranks", int64_t{point.ranks}},
                           {"parts", point.parts},
                           {"seconds", point.seconds},
                           {"speed_up", point.SpeedUp()},
                           {"efficiency", point.efficiency},
                           {"hidden", point.hidden ? Json(*point.hidden) : Json()},
                           {"sent_bytes", point.mean_sent_bytes},
                           {"most_sent_bytes", point.most_sent_bytes},
                           {"memory_bytes", point.memory_bytes},
                           {"messages", point.messages},
                           {"small_messages_seconds", point.small_seconds},
                           {"counts_waited_seconds", WaitedFor(point, Traffic::kCounts)},
                           {"losses_waited_seconds", WaitedFor(point, Traffic::kLosses)},
                           {"squares_waited_seconds", WaitedFor(point, Traffic::kSquares)},
                           {"gradients_waited_seconds", WaitedFor(point, Traffic::kGradient)},
                           {"weights_waited_seconds", WaitedFor(point, Traffic::kWeight)}});
}

}  // namespace

const char* Name(ScalingKind kind) { return kind == ScalingKind::kStrong ? "strong" : "weak"; }

double SecondsAlone(const StepRecording& recording) {
  return ReplayStep(recording, 1, recording.parts, {"none", 0, 1, 0}).seconds;
}

std::vector<ScalingCurve> SimulateScaling(const StepRecording& recording, const std::vector<int64_t>& ranks,
                                          const std::vector<Network>& networks, const StopRequest& stop) {
  const double alone = SecondsAlone(recording);
  std::vector<ScalingCurve> curves;
  for (const ScalingKind kind : {ScalingKind::kStrong, ScalingKind::kWeak}) {
    const size_t first = curves.size();
    for (const Network& network : networks) curves.push_back({kind, network, {}});
    for (const int64_t count : ranks) {
      if (kind == ScalingKind::kStrong && count > recording.parts) continue;
      const std::vector<ScalingPoint> points =
          PointsOf(recording, kind, static_cast<int>(count), alone, networks, stop);
      for (size_t i = 0; i < points.size(); ++i) curves[first + i].points.push_back(points[i]);
    }
  }
  return curves;
}

Json ToJson(const StepRecording& recording, const std::vector<ScalingCurve>& curves) {
  Json list = Json::MakeArray();
  for (const ScalingCurve& curve : curves) {
    Json points = Json::MakeArray();
    for (const ScalingPoint& point : curve.points) points.Append(ToJson(point));
    list.Append(Json::MakeObject({{"scaling", Name(curve.kind)},
                                  {"network", curve.network.name},
                                  {"latency_seconds", curve.network.latency},
                                  {"bytes_per_second", curve.network.bytes_per_second},
                                  {"overhead_seconds", curve.network.overhead},
                                  {"points", std::move(points)}}));
  }
  return Json::MakeObject({{"simulated", true},
                           {"measured_seconds", recording.step_seconds},
                           {"modelled_seconds", SecondsAlone(recording)},
                           {"curves", std::move(list)},
                           {"recording", ToJson(recording)}});
}

namespace {

std::string Milliseconds(double seconds) { return FixedText(1e3 * seconds, seconds < 0.1 ? 2 : 1); }

// Columns set right, two spaces between them.
std::string Padded(const TextTable& table) {
  std::vector<size_t> widths;
  for (const std::string& name : table.header) widths.push_back(name.size());
  for (const std::vector<std::string>& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  const auto add = [&](const std::vector<std::string>& row) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += std::string(widths[i] - row[i].size() + (i > 0 ? 2 : 0), ' ') + row[i];
    }
    text += "\n";
  };
  add(table.header);
  for (const std::vector<std::string>& row : table.rows) add(row);
  return text;
}

}  // namespace

std::string SimulatedNote() {
  return "Simulated: computed from one recorded step and a model of the network; nothing here was measured on so many "
         "machines.";
}

std::vector<std::pair<std::string, std::string>> RecordingFacts(const StepRecording& recording) {
  const double alone = SecondsAlone(recording);
  return {
      {"recorded on", StrCat(recording.processor, ", ", recording.simd_target, ", ", recording.threads,
                             recording.threads == 1 ? " thread" : " threads", ", crosstalk ", recording.version)},
      {"model", recording.model},
      {"step", StrCat(CountText(recording.batch), " rows in ", recording.parts,
                      recording.parts == 1 ? " part" : " parts", ", median of ", StepsText(recording.steps))},
      {"a part",
       StrCat("batch ", Milliseconds(recording.batch_seconds), " ms, forward ", Milliseconds(recording.forward_seconds),
              " ms, backward ", Milliseconds(recording.backward_seconds), " ms")},
      {"all gradients", StrCat(BytesText(recording.TrainableBytes()), ": one addition ",
                               Milliseconds(recording.add_seconds), " ms, norm ", Milliseconds(recording.norm_seconds),
                               " ms, optimizer ", Milliseconds(recording.optimizer_seconds), " ms")},
      {"one rank",
       StrCat("measured ", Milliseconds(recording.step_seconds), " ms a step, modelled ", Milliseconds(alone), " ms (",
              FixedText(100 * (alone / recording.step_seconds - 1), 1), " % off)")}};
}

std::string TitleOf(const ScalingCurve& curve) {
  return StrCat(curve.kind == ScalingKind::kStrong ? "Strong" : "Weak", " scaling on ", Describe(curve.network),
                ", simulated");
}

TextTable TableOf(const ScalingCurve& curve) {
  TextTable table{
      .header = {"ranks", "parts", "ms a step", "speed-up", "efficiency %", "hidden %", "sent MB", "most sent MB",
                 "wait: gradients ms", "weights ms", "others ms", "small alone ms", "memory MB"},
      .rows = {}};
  for (const ScalingPoint& point : curve.points) {
    const auto waited = [&](Traffic traffic) { return point.waited_seconds[static_cast<size_t>(traffic)]; };
    table.rows.push_back(
        {StrCat(point.ranks), CountText(point.parts), Milliseconds(point.seconds), FixedText(point.SpeedUp(), 2),
         FixedText(100 * point.efficiency, 1), point.hidden ? FixedText(100 * *point.hidden, 1) : "",
         FixedText(1e-6 * point.mean_sent_bytes, 2), FixedText(1e-6 * point.most_sent_bytes, 2),
         Milliseconds(waited(Traffic::kLosses) + waited(Traffic::kGradient)), Milliseconds(waited(Traffic::kWeight)),
         Milliseconds(waited(Traffic::kCounts) + waited(Traffic::kSquares)), Milliseconds(point.small_seconds),
         FixedText(1e-6 * static_cast<double>(point.memory_bytes), 1)});
  }
  return table;
}

std::string ColumnsNote() {
  return "Means over ranks. hidden: of gradients' bytes, those that arrive while their receiver computes. sent: "
         "gradients "
         "and weights. wait: for gradients, with the losses that are gathered meanwhile; for weights; for counts and "
         "norms. small alone: counts, losses and norms on an idle network. memory: weights, gradients and optimizer, "
         "no "
         "activations.";
}

std::string ScalingText(const StepRecording& recording, const std::vector<ScalingCurve>& curves) {
  std::string text = SimulatedNote() + "\n\n";
  for (auto [name, value] : RecordingFacts(recording)) {
    name.resize(16, ' ');
    text += StrCat(name, value, "\n");
  }
  for (const ScalingCurve& curve : curves) {
    if (curve.points.empty()) continue;
    text += StrCat("\n", TitleOf(curve), "\n", Padded(TableOf(curve)));
  }
  return text + "\n" + ColumnsNote() + "\n";
}

namespace {

// A curve a network; strong scaling beside what R ranks would give if nothing had to be exchanged.
LineChart PanelOf(ScalingKind kind, const std::vector<ScalingCurve>& curves) {
  const bool strong = kind == ScalingKind::kStrong;
  LineChart panel = {
      .title = strong ? "Simulated strong scaling: speed-up" : "Simulated weak scaling: efficiency",
      .x_label = "ranks",
      .x_scale = AxisScale::kDoubling,
      .y_from_zero = !strong,
      .y_scale = strong ? AxisScale::kLog : AxisScale::kLinear,
      .factor = strong ? 1.0 : 100.0,
      .unit = strong ? "" : " %",
  };
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

}  // namespace

std::string ScalingPage(const StepRecording& recording, const std::vector<ScalingCurve>& curves) {
  Page page("Simulated scaling of a training step");
  page.SetKind("Crosstalk: simulated");
  page.SetLead(SimulatedNote());
  TextTable facts{{"", "measured"}, {}};
  for (const auto& [name, value] : RecordingFacts(recording)) facts.rows.push_back({name, value});
  page.AddSection("The recording", HtmlTable(facts));
  for (const ScalingKind kind : {ScalingKind::kStrong, ScalingKind::kWeak}) {
    std::string html = Figure(PanelOf(kind, curves)).Html() + Paragraph(ColumnsNote());
    for (const ScalingCurve& curve : curves) {
      if (curve.kind == kind) html += HtmlTable(TableOf(curve), TitleOf(curve));
    }
    page.AddSection(kind == ScalingKind::kStrong ? "Strong scaling, simulated" : "Weak scaling, simulated", html);
  }
  return page.Html();
}

std::string ScalingSvg(const StepRecording& recording, const std::vector<ScalingCurve>& curves) {
  std::vector<std::string> notes = {"Simulated: from one recorded step and a model of the network"};
  for (const auto& [name, value] : RecordingFacts(recording)) notes.push_back(name + ": " + value);
  return StandaloneSvg({PanelOf(ScalingKind::kStrong, curves), PanelOf(ScalingKind::kWeak, curves)}, notes);
}

}  // namespace crosstalk
