// `crosstalk demo`: the first three minutes. One small language model, with multi-head and with talking-heads attention
// that begins as multi-head does: what the second gains, what it writes, and what the mixing of heads has become.
#include <errno.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/run.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "tools/cli/command.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"
#include "tools/cli/training.h"
#include "tools/commands/writing.h"
#include "tools/page/run_page.h"

namespace crosstalk {
namespace {

struct DemoSettings {
  std::string out = "runs/demo";
  int64_t steps = 1000;
  uint64_t seed = 1;
};

FieldTable<DemoSettings> DemoFields() {
  using S = DemoSettings;
  return Grouped<S>("Run",
                    {MakeOption("--out", &S::out, "FOLDER",
                                "Where both runs and their report go; what is begun there goes on.", {.is_path = true}),
                     MakeOption("--steps", &S::steps, "N", "Updates of each model.", {.range = AtLeast(1)}),
                     MakeOption("--seed", &S::seed, "N", "Decides initial values and the order of the text.",
                                {.range = kSeedRange})});
}

// Many heads with short keys: where multi-head attention loses most, and talking-heads least (paper, table 1).
TrainingConfig DemoConfig(const DemoSettings& settings, AttentionKind kind) {
  TrainingConfig config;
  config.model.name = "lm";
  config.model.attention.kind = kind;
  config.model.attention.heads = 32;
  config.model.positions = PositionScheme::kLearned;
  if (kind == AttentionKind::kTalking) config.model.mixing_init = MixingInit::kIdentity;
  config.objective.input_length = 128;
  config.optimization.batch = 8;
  config.optimization.steps = settings.steps;
  config.optimization.seed = settings.seed;
  config.run.eval_every = std::max<int64_t>(1, settings.steps / 5);
  config.run.eval_batches = 16;
  return config;
}

struct Part {
  const char* folder;
  AttentionKind kind;
};
constexpr Part kParts[] = {{"multi-head", AttentionKind::kMultihead}, {"talking-heads", AttentionKind::kTalking}};

std::string LnPplText(double value) { return FixedText(value, 4); }

// By how much the second is better, as a share of the first's distance to the entropy bound if that is known.
std::string GainText(const RunEvaluation& first, const RunEvaluation& second) {
  const double a = first.result.metrics.at(0).value, b = second.result.metrics.at(0).value;
  std::string text =
      StrCat("held-out ln(PPL): multi-head ", LnPplText(a), ", talking-heads ", LnPplText(b), BoundText(second), "\n");
  if (!(b < a)) return text + "after so few steps talking-heads gain nothing here";
  text += StrCat("talking-heads gain ", LnPplText(a - b));
  if (second.baselines.entropy_bound && a > *second.baselines.entropy_bound) {
    text += StrCat(", ", FixedText(100 * (a - b) / (a - *second.baselines.entropy_bound), 0),
                   " % of multi-head's distance to the entropy bound, the least possible on this text");
  }
  return text;
}

int Demo(const DemoSettings& settings) {
  CheckHolds(settings.out, "a demonstration", [](const std::string& name) {
    return name == kParts[0].folder || name == kParts[1].folder || name == kReportName;
  });
  PrintMessage(
      "Trains one small language model twice, with 32 heads of 4 numbers each: with multi-head attention, and with "
      "talking-heads attention, which begins as the same function.\n"
      "ln(PPL) is the mean of -ln p(next token): lower is better.");
  const StopSignals signals;
  std::vector<PlannedRun> runs;
  for (const Part& part : kParts) {
    runs.push_back({.title = part.folder,
                    .config = ResolvedConfig(DemoConfig(settings, part.kind)),
                    .folder = StrCat(settings.out, "/", part.folder)});
  }
  std::vector<RunEvaluation> evaluations;
  const auto finished = [&](const TrainingRun& run, const TrainingSummary& summary) {
    const std::string& folder = run.folder().path();
    CROSSTALK_CHECK(summary.last_evaluation.has_value(), folder, ": the run has no evaluation");
    evaluations.push_back(*summary.last_evaluation);
    if (evaluations.size() < std::size(kParts)) return;
    PrintMessage("\n", GainText(evaluations[0], evaluations[1]));
    const std::string more = ShowClosingSample(run);
    const WrittenReport report = WriteReportAtEnd(settings.out, run.data().corpus.validation);
    if (!report.crossing.empty()) PrintMessage("what mixing does: ", report.crossing);
    PrintMessage("what next:  ", more,
                 report.path.empty() ? "" : StrCat("open ", ShellQuoted(report.path), " in a browser\n            "),
                 program_invocation_name, " inspect ", ShellQuoted(folder),
                 " --text 'a sentence' --out heads.html   each head on a sentence of yours\n            ",
                 program_invocation_name, " train --model lm --data YOUR.txt   a model of your own text");
  };
  return GoOnWithAll(std::move(runs), "the same command goes on from here", signals, nullptr, {.finished = finished});
}

}  // namespace

Command DemoCommand() {
  return {"demo", "the first three minutes: what talking-heads gain, write and say to each other",
          "Trains one small language model twice on the built-in stories, with multi-head and with talking-heads "
          "attention that begins as multi-head attention does, on the same text in the same order. It says what "
          "talking-heads gain, lets the model go on with a held-out text, says how far its heads mix, and writes a "
          "report. What is begun goes on by the same command.",
          OptionsOf(DemoFields, Demo, Computes::kYes)};
}

}  // namespace crosstalk
