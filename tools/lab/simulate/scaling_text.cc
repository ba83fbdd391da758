#include "tools/lab/simulate/scaling_text.h"

#include <algorithm>

#include "crosstalk/runtime/check.h"
#include "tools/cli/format.h"

namespace crosstalk {
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

}  // namespace crosstalk
