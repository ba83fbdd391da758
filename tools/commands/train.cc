// `crosstalk train`: trains a model, or goes on with one.
#include <errno.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/finetuning.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/run.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/command.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"
#include "tools/cli/ranks.h"
#include "tools/cli/training.h"
#include "tools/commands/writing.h"
#include "tools/page/run_page.h"

namespace crosstalk {

namespace {

struct TrainSettings {
  std::string out;
  std::string resume = "none";
  bool dry_run = false;
  bool json = false;
};

FieldTable<TrainSettings> TrainSettingsFields() {
  using S = TrainSettings;
  return Grouped<S>(
      "Run", {MakeOption("--out", &S::out, "FOLDER", "The run folder; runs/MODEL-ATTENTION-1, -2, … by default.",
                         {.is_path = true}),
              MakeOption("--resume", &S::resume, "WHAT",
                         "auto: the newest good checkpoint of --out, which must hold a run; if-any: the same, or a new "
                         "run where it holds none; a run folder; a checkpoint; or none.",
                         {.is_path = true, .not_paths = {"none", "auto", "if-any"}}),
              MakeOption("--dry-run", &S::dry_run, "",
                         "Print the resolved configuration, parameters, memory and multiplications; train nothing."),
              MakeOption("--json", &S::json, "", "Result as one JSON object on standard output.")});
}

ResumeOptions MakeResumeOptions(TrainSettings& settings) {
  ResumeOptions resume;
  if (settings.resume == "none") return resume;
  if (settings.resume == "auto" || settings.resume == "if-any") {
    CROSSTALK_CHECK(!settings.out.empty(), "--resume ", settings.resume, " needs --out RUN: the run to go on with");
    const bool is_there = RunFolder(settings.out).HoldsRun();
    CROSSTALK_CHECK(is_there || settings.resume == "if-any", "--resume auto: there is no run in --out ", settings.out,
                    " to go on with; a new one begins without --resume, or with --resume if-any");
    if (is_there) {
      resume.from = ResumeOptions::From::kNewest;
    } else {
      PrintMessage("there is no run in ", settings.out, ": a new one begins");
    }
    return resume;
  }
  if (RunFolder(settings.resume).HoldsRun()) {  // a run folder: the same as --out RUN --resume auto
    if (settings.out.empty()) settings.out = settings.resume;
    CROSSTALK_CHECK(std::filesystem::equivalent(settings.out, settings.resume), "--resume ", settings.resume,
                    " is a run folder: to go on in another --out, name one of its checkpoints");
    resume.from = ResumeOptions::From::kNewest;
    return resume;
  }
  CROSSTALK_CHECK(KindOf(settings.resume) != PathKind::kNothing, "--resume ", settings.resume,
                  ": there is no run or checkpoint there");
  CROSSTALK_CHECK(!settings.out.empty(), "--resume CHECKPOINT needs --out RUN: where to go on");
  resume.from = ResumeOptions::From::kPath;
  resume.path = settings.resume;
  return resume;
}

// What a run would go on from; nothing where it would begin.
std::optional<Checkpoint> ResumedCheckpoint(const ResumeOptions& resume, const std::string& folder) {
  switch (resume.from) {
    case ResumeOptions::From::kNothing:
      return std::nullopt;
    case ResumeOptions::From::kNewest:
      return CheckpointStore(RunFolder(folder).CheckpointDirectory()).FindNewestGood().checkpoint;
    case ResumeOptions::From::kPath:
      return VerifyCheckpoint(resume.path);
  }
  return std::nullopt;
}

void PrintEnd(const TrainSettings& settings, const TrainingRun& run, const TrainingSummary& summary) {
  const std::string& path = run.folder().path();
  if (settings.json) {
    PrintResult(Json::MakeObject(
        {{"run", path},
         {"finished", summary.end == TrainingSummary::End::kFinished},
         {"step", summary.step},
         {"parameters", summary.parameters},
         {"evaluation", summary.last_evaluation ? EvaluationMembers(*summary.last_evaluation) : Json()}}));
  }
  if (summary.end == TrainingSummary::End::kStopped) {
    PrintMessage("interrupted after step ", summary.step, "; a checkpoint is saved in ", path,
                 "\ncontinue with: ", program_invocation_name, " train --out ", ShellQuoted(path), " --resume auto");
    return;
  }
  PrintMessage("finished: ", summary.step, " steps",
               summary.last_evaluation ? ", " + EvaluationText(*summary.last_evaluation) : "", ", ",
               DurationText(summary.seconds));
  const char* const program = program_invocation_name;
  PrintMessage("the run is in ", path, ": model.safetensors, metrics.jsonl, run.json, checkpoints/, report.html");
  const std::string more = ShowClosingSample(run);
  const WrittenReport report = WriteReportAtEnd(path, run.data().corpus.validation);
  if (!report.crossing.empty()) PrintMessage("what mixing does: ", report.crossing);
  PrintMessage("what next:  ", more,
               report.path.empty() ? "" : StrCat("open ", ShellQuoted(report.path), " in a browser\n            "),
               program, " eval --run ", ShellQuoted(path), "   measure it again, or with --data on your own text\n",
               "            ", program, " train --resume ", ShellQuoted(path), " --steps ", 2 * summary.step,
               "   go on with it\n", "            ", program, " compare",
               run.config().model.name == TrainingConfig().model.name ? "" : " --model " + run.config().model.name,
               "   the family of attention side by side, on the built-in corpus");
}

// ", 1,024 of them frozen", or nothing.
std::string FrozenText(const Model& model) {
  int64_t frozen = 0;
  for (const NamedParameter& parameter : model.Parameters()) {
    if (!parameter.trainable) frozen += parameter.value.value().num_elements();
  }
  return frozen == 0 ? "" : StrCat(", ", CountText(frozen), " of them frozen");
}

int Train(const OptionTable& options, RankGroup* ranks) {
  TrainSettings settings = options.Over(TrainSettingsFields());
  const ResumeOptions resume = MakeResumeOptions(settings);
  const Given given = options.Values();
  TrainingConfig chosen =
      resume.from == ResumeOptions::From::kNothing ? ConfigToBegin(given) : ConfigToResume(given, resume, settings.out);
  MakePathsAbsolute(&chosen);
  const ResolvedConfig resolved(chosen);
  CROSSTALK_CHECK(FindInvalidUtf8(settings.out) == std::string::npos, "--out: ", Quoted(settings.out),
                  " is not UTF-8 text; choose another name");
  if (settings.dry_run) return DryRun(resolved, ResumedCheckpoint(resume, settings.out), settings.json);
  const bool begins = resume.from == ResumeOptions::From::kNothing && !settings.out.empty();
  CROSSTALK_CHECK(!begins || !RunFolder(settings.out).HoldsRun(), settings.out,
                  ": holds a run already; continue it with --resume auto, or choose another --out");

  Progress progress;
  const StopSignals signals;
  const TrainingObserver observer = MakeTrainingObserver(progress, signals, resolved->optimization.steps);
  const std::string name = StrCat(resolved->model.name, "-", Name(resolved->model.attention.kind));
  TrainingRun run = settings.out.empty()
                        ? TrainingRun(resolved, RunLock::OfNewFolder("runs", name), resume, observer, ranks)
                        : TrainingRun(resolved, settings.out, resume, observer, ranks);
  const TrainingConfig& config = run.config();
  PrintMessage(run.model().Describe(), ", ", AttentionText(run.model()), "\n", CountText(run.model().NumParameters()),
               " parameters", FrozenText(run.model()), ", ", config.optimization.batch, " examples of ",
               ObjectiveOf(config).describe(config.objective), " a step, ", config.optimization.steps, " steps, ",
               RanksText(ranks), NumThreads(), NumThreads() == 1 ? " thread" : " threads", ", ",
               AttentionImplementationText(run.model()), " attention");
  PrintMessage("data: ", run.data().description, "; ", run.data().tokenizer->kind(), " tokenizer, ",
               run.data().tokenizer->vocab_size(), " ids");
  for (const std::string& remark : run.data().remarks) PrintMessage("note: ", remark);
  for (const TextSource* text : {run.data().corpus.training.get(), run.data().corpus.validation.get()}) {
    if (text == nullptr) continue;
    const std::string warning = UnknownTokensWarning(*text, *run.data().tokenizer);
    if (!warning.empty()) PrintMessage("warning: ", warning);
  }
  PrintMessage("run: ", run.folder().path());
  const TrainingSummary summary = run.Train();
  PrintEnd(settings, run, summary);
  return summary.end == TrainingSummary::End::kStopped ? 128 + signals.Received() : 0;
}

}  // namespace

Command TrainCommand() {
  return {
      "train", "train a model with any attention of the family, or go on with one",
      "Trains a model on text. Without options: a small talking-heads language model on the built-in stories, in "
      "about three minutes on two cores. Progress goes to standard error; the run folder gets run.json, "
      "metrics.jsonl, checkpoints and at the end model.safetensors and report.html.\n"
      "The first SIGINT or SIGTERM saves a checkpoint and exits with 130 or 143; a second one ends at once. "
      "--resume gives the bits of an uninterrupted run; options that are not repeated keep the run's values. With more "
      "--steps it continues a finished run, too.\n"
      "--init-from begins a new run with the weights, model, tokenizer and objective of another; everything else is "
      "this run's own.",
      [](OptionTable& options) -> std::function<int()> {
        options.AddFields(TrainingFields());
        options.AddFields(TrainSettingsFields());
        AddRankOptions(options);
        options.AddThreads();
        options.ShowFirst({"--data", "--model", "--attention", "--heads", "--d-model", "--layers", "--steps", "--batch",
                           "--seed", "--out", "--resume", "--dry-run"});
        return [&options] { return WithRanks(options, [&](RankGroup* ranks) { return Train(options, ranks); }); };
      }};
}

}  // namespace crosstalk
