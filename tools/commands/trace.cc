// `crosstalk trace`: what the time of a training step goes to.
#include "tools/lab/bench/trace.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/loop.h"
#include "crosstalk/models/training/ranks/reducer.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/measure.h"
#include "crosstalk/runtime/parallel.h"
#include "tools/cli/command.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"
#include "tools/cli/ranks.h"
#include "tools/cli/training.h"
#include "tools/lab/bench/bench.h"
#include "tools/lab/bench/measured_step.h"
#include "tools/page/page.h"

namespace crosstalk {

namespace {

constexpr int64_t kWarmUps = 5;

struct TraceSettings {
  int64_t repetitions = 20;
  std::optional<std::string> out;
  bool json = false;
};

FieldTable<TraceSettings> TraceFields() {
  using S = TraceSettings;
  return Grouped<S>(
      "Trace", {MakeOption("--repetitions", &S::repetitions, "N", "Traced steps, after a few for warm-up.",
                           {.range = {1, 100'000}}),
                MakeOption("--out,-o", &S::out, "FILE", "HTML page, with a bar for each operation.", {.is_path = true}),
                MakeOption("--json", &S::json, "", "Sums and every operation as one JSON object on standard output.")});
}

// The one of middle length: a step as it was, whose parts add up.
std::vector<TraceEvent> TraceMedianStep(Loop& loop, int64_t repetitions, const StopRequest& stop) {
  Progress progress;
  std::vector<MeasuredStep> steps = MeasureSteps(
      loop,
      {.warm_ups = kWarmUps, .repetitions = repetitions, .traced = true, .stop = stop, .progress = [&](int64_t done) {
         progress.Count("step", done, repetitions);
       }});
  std::sort(steps.begin(), steps.end(),
            [](const MeasuredStep& a, const MeasuredStep& b) { return a.result.seconds < b.result.seconds; });
  return std::move(steps[steps.size() / 2].events);
}

int TraceStep(const OptionTable& options, RankGroup* ranks) {
  const TraceSettings settings = options.Over(TraceFields());
  if (settings.out) CheckOutput("--out", *settings.out, kPageBegin);
  const ResolvedConfig config =
      MeasuredConfig(options.Over(TrainingFields(), TrainingConfig()), kWarmUps + settings.repetitions);
  const StopSignals signals;
  const StopRequest stop = [&signals] { return signals.Received() != 0; };
  const TrainingData data = OpenTrainingData(*config, nullptr, stop);
  TrainingInMemory training(config, data, ranks);

  const int64_t parts = config->optimization.shards;
  if (ranks == nullptr && AreBesideEachOther(parts, training.model().Parameters())) {
    PrintMessage("the ", parts, " parts are traced one after another; training computes them beside each other");
  }
  const Precision precision = config->optimization.precision;
  const double before = PeakGflops(precision);
  const std::vector<TraceEvent> events = TraceMedianStep(training.loop(), settings.repetitions, stop);
  const StepTrace trace = MakeStepTrace(events, NumThreads(), std::max(before, PeakGflops(precision)));
  if (settings.json) {
    PrintResult(ToJson(trace));
  } else {
    PrintResult(TraceText(trace));
  }
  if (settings.out) {
    WriteFileAtomically(*settings.out, TracePage(trace, StrCat(training.model().Describe(), ", ", Name(precision))));
    PrintMessage("written: ", *settings.out);
  }
  return 0;
}

}  // namespace

Command TraceCommand() {
  return {
      "trace", "what the time of a training step goes to",
      "Trains a few steps in memory, as `crosstalk train` does with the same options, and shows the one of median "
      "length: each operation with its result's shape, forward and backward, how much of it is in matrix products and "
      "at which share of the peak of multiply-adds, and what the threads do meanwhile. The peak is measured in the "
      "same process. Nothing else should run on the machine. Under mpirun it is a step of rank 0, with its messages.",
      [](OptionTable& options) -> std::function<int()> {
        options.AddFields(TrainingFields(), {}, {}, "train");
        options.AddFields(TraceFields());
        options.AddThreads();
        AddRankOptions(options);
        return [&options] {
          return WithRanks(options, [&options](RankGroup* ranks) { return TraceStep(options, ranks); });
        };
      }};
}

}  // namespace crosstalk
