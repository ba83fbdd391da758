// `crosstalk simulate`: how a run would scale over ranks and networks, from a measured step.
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "tools/cli/command.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"
#include "tools/cli/training.h"
#include "tools/lab/bench/measured_step.h"
#include "tools/lab/simulate/recording.h"
#include "tools/lab/simulate/replay.h"
#include "tools/lab/simulate/scaling.h"
#include "tools/page/page.h"

namespace crosstalk {

namespace {

struct SimulateSettings {
  std::optional<std::string> record;
  std::optional<std::string> recording;
  int64_t repetitions = 9;
  std::vector<int64_t> ranks = {1, 2, 4, 8, 16, 32, 64, 128, 256};
  std::vector<std::string> network = {"1GbE", "10GbE", "25GbE", "100GbE"};
  std::optional<std::string> out;
  bool json = false;
};

FieldTable<SimulateSettings> SimulateFields() {
  using S = SimulateSettings;
  return Grouped<S>(
      "Simulation",
      {MakeOption("--record", &S::record, "FILE", "Write the measurements of the step to FILE, as JSON.",
                  {.is_path = true}),
       MakeOption("--recording", &S::recording, "FILE", "Read it from FILE instead of measuring a step.",
                  {.is_path = true}),
       MakeOption("--repetitions", &S::repetitions, "N", "Measured steps, after a few for warm-up.",
                  {.range = {1, 100'000}}),
       MakeOption("--ranks", &S::ranks, "LIST", "Numbers of ranks.", {.range = {1, 512}}),
       MakeOption("--network", &S::network, "LIST",
                  "1GbE, 10GbE, 25GbE, 100GbE, or BANDWIDTH/LATENCY[/OVERHEAD]: GB/s, µs, and µs of overhead for which "
                  "a message keeps a link busy (5): 1.1/50."),
       MakeOption("--out,-o", &S::out, "FILE", "Picture and tables as an HTML page, or the picture as FILE.svg.",
                  {.is_path = true}),
       MakeOption("--json", &S::json, "", "Points, networks and recording as one JSON object on standard output.")});
}

bool IsSvg(const std::string& path) { return path.ends_with(".svg"); }

StepRecording Record(const OptionTable& options, const SimulateSettings& settings, const StopSignals& signals) {
  const ResolvedConfig config =
      MeasuredConfig(options.Over(TrainingFields(), TrainingConfig()), kStepsBeforeRecording + settings.repetitions);
  Progress progress;
  return RecordStep(
      config, settings.repetitions, [&signals] { return signals.Received() != 0; },
      [&](int64_t done) { progress.Count("step", done, settings.repetitions); });
}

// Options of training say what is measured, and nothing of a recording that is there.
StepRecording Read(const OptionTable& options, const std::string& path) {
  std::vector<std::string> except = {"threads", "simd"};
  for (const Field<SimulateSettings>& field : SimulateFields()) except.push_back(field.key);
  std::erase(except, "repetitions");
  const std::string given = options.GivenText(except);
  CROSSTALK_CHECK(given.empty(), "--recording ", path, ": has the options that its step was measured with; leave out ",
                  given);
  return ReadRecording(path);
}

int Simulate(const OptionTable& options) {
  const SimulateSettings settings = options.Over(SimulateFields());
  CROSSTALK_CHECK(!settings.record || !settings.recording,
                  "--record writes what is measured, and with --recording nothing is: choose one");
  CheckDistinct("--ranks", settings.ranks);
  CheckDistinct("--network", settings.network);
  std::vector<Network> networks;
  for (const std::string& text : settings.network) networks.push_back(ParseNetwork(text));
  if (settings.out) CheckOutput("--out", *settings.out, IsSvg(*settings.out) ? "<svg " : kPageBegin);
  if (settings.record) CheckOutput("--record", *settings.record, RecordingBegin());
  const StopSignals signals;
  const StepRecording recording =
      settings.recording ? Read(options, *settings.recording) : Record(options, settings, signals);
  if (settings.record) {
    WriteFileAtomically(*settings.record, ToJson(recording).DumpPretty());
    PrintMessage("written: ", *settings.record);
  }
  const std::vector<ScalingCurve> curves =
      SimulateScaling(recording, settings.ranks, networks, [&signals] { return signals.Received() != 0; });
  if (settings.json) {
    PrintResult(ToJson(recording, curves));
  } else {
    PrintResult(ScalingText(recording, curves));
  }
  if (std::any_of(settings.ranks.begin(), settings.ranks.end(), [&](int64_t r) { return r > recording.parts; })) {
    PrintMessage("strong scaling ends at ", recording.parts,
                 recording.parts == 1 ? " rank: the step has as many parts" : " ranks: the step has as many parts",
                 " (--shards)");
  }
  if (settings.out) {
    WriteFileAtomically(*settings.out,
                        IsSvg(*settings.out) ? ScalingSvg(recording, curves) : ScalingPage(recording, curves));
    PrintMessage("written: ", *settings.out);
  }
  return 0;
}

}  // namespace

Command SimulateCommand() {
  return {
      "simulate", "how a run would scale over ranks and networks, from a measured step",
      "Trains a few steps in memory, as `crosstalk train` does with the same options on one process, and records how "
      "long batch, forward, each gradient and the optimizer take. With these times it replays a step of R ranks (which "
      "gradients go where, and when), on networks of given latency and bandwidth. Strong scaling: R ranks share "
      "the step, of --shards parts. Weak scaling: each rank computes as much as the whole step. Everything it prints "
      "is simulated, except the step of one rank. While it measures, nothing else should run on the machine.",
      [](OptionTable& options) -> std::function<int()> {
        options.AddFields(TrainingFields(), {}, {}, "train");
        options.AddFields(SimulateFields());
        options.AddThreads();
        return [&options] { return Simulate(options); };
      }};
}

}  // namespace crosstalk
