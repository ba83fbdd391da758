// `crosstalk finetune`: goes on with a trained model on tasks, one run for each seed.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/models/tasks/task_set.h"
#include "crosstalk/models/training/finetuning.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/objectives/text_to_text.h"
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
#include "tools/page/run_page.h"
#include "tools/page/seeds.h"

namespace crosstalk {

namespace {

// d_model of the smallest T5 whose finetuning was published; BERT and ALBERT began at 768.
constexpr int64_t kSmallestPublished = 512;

constexpr int64_t kPromptsLookedAt = 1000;  // of a task

struct FinetuneSettings {
  TrainingConfig config;
  std::string from;
  std::string out;
  std::vector<uint64_t> seeds;
  std::optional<double> epochs;
  bool dry_run = false;
  bool json = false;
};

Field<FinetuneSettings> FromField() {
  return MakeOption("--from", &FinetuneSettings::from, "MODEL", "A run's folder, a checkpoint or an imported model.",
                    {.is_path = true});
}

FieldTable<FinetuneSettings> FinetuneRunFields() {
  using S = FinetuneSettings;
  return Grouped<S>(
      "Run",
      {MakeOption(
           "--epochs", &S::epochs, "X",
           "Passes over the examples; as published for the model and the task by default. --steps sets the length too.",
           {.range = {1e-9, 1e6}}),
       MakeOption("--out", &S::out, "FOLDER", "The run folder; runs/TASK-MODEL-1, -2, … by default.",
                  {.is_path = true}),
       MakeOption("--seeds", &S::seeds, "LIST",
                  "Seeds: a run for each, in --out/seed-N; --out/scores.json has the mean and spread over all runs of "
                  "the folder.",
                  {.range = kSeedRange}),
       MakeOption("--dry-run", &S::dry_run, "",
                  "Print the resolved configuration, parameters, memory and multiplications; train nothing."),
       MakeOption("--json", &S::json, "", "Result as one JSON object on standard output.")});
}

// Those of train. Some have other defaults here, which depend on the model and the task (docs/finetuning.md).
FieldTable<TrainingConfig> FieldsOfTraining() {
  constexpr std::pair<const char*, const char*> kPublished[] = {
      {"input_length", "Most tokens of an input; as the task needs and the model reads by default."},
      {"dropout", "Share of activations dropped in training; 0.1 by default, or a language model's own."},
      {"frozen",
       "Parameters that are not trained, by paths separated by commas; * matches any characters: "
       "embedding,encoder.block_0,*.P_l. By default a T5's embedding; none: train all."},
      {"optimizer_start",
       "Optimizer state at the start: fresh: zero; carried: that of --from, which needs the same optimizer and the "
       "same parameters. By default a T5's is carried over where it can be."},
      {"steps", "Updates in the whole run; --epochs or as published for the model and the task by default."},
      {"batch", "Examples a step; as published for the model and the task by default."},
      {"optimizer", "Optimizer; by default adafactor for t5, adamw for others."},
      {"schedule", "Course of the learning rate; by default constant for t5, linear for others."},
      {"learning_rate",
       "Scale of the schedule; as published for the model and the task by default, for models of 60 million parameters "
       "and more: 0.001 for t5, 6.25e-05 for lm, 1e-05 to 5e-05 for bert and albert."},
      {"warmup", "Steps of warm-up; as published for the model and the task by default."}};
  FieldTable<TrainingConfig> fields = TrainingFields();
  for (Field<TrainingConfig>& field : fields) {
    for (const auto& [key, help] : kPublished) {
      if (field.key != key) continue;
      field.options.help = help;
      field.get = [](const TrainingConfig&) { return Json(); };
    }
  }
  return fields;
}

// The folder of each run.
std::vector<std::string> FoldersOf(const FinetuneSettings& settings) {
  if (settings.out.empty()) return {};
  if (settings.seeds.empty()) return {settings.out};
  std::vector<std::string> folders;
  for (const uint64_t seed : settings.seeds) folders.push_back(SeedFolder(settings.out, seed));
  return folders;
}

// A run that has begun knows all that its origin decides, and needs that no more.
Trained OutlineOf(const FinetuneSettings& settings) {
  for (const std::string& folder : FoldersOf(settings)) {
    if (RunFolder(folder).HoldsRun()) return OpenRun(folder, {.which = WhichCheckpoint::kNone});
  }
  return LoadOrigin(settings.from, TrainedParts::kTokenizer);
}

// Fields that the origin decides, and fields that tasks do not read: of another value, each is an error.
std::vector<std::string> FieldsNotOffered() {
  std::vector<std::string> keys = FieldsOfTheOrigin();
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    const FieldReaders& readers = field.options.read_by;
    const bool of_objectives = std::string_view(readers.key) == "objective";
    const auto learns_tasks = [](const std::string& name) { return FindObjective(name).learns_tasks(); };
    if (of_objectives && std::none_of(readers.choices.begin(), readers.choices.end(), learns_tasks)) {
      keys.push_back(field.key);
    }
  }
  return keys;
}

// The published settings, under what the command line says.
void Resolve(const OptionTable& options, FinetuneSettings& settings) {
  CROSSTALK_CHECK(!settings.from.empty(), "--from is missing: a run's folder, a checkpoint or an imported model");
  const TrainingConfig given = options.Over(TrainingFields(), TrainingConfig());
  const std::string& task = given.objective.tasks;
  CROSSTALK_CHECK_FIELD(!given.objective.task_data.empty(), "task_data",
                        "is missing: the folder with the tasks' files");
  CROSSTALK_CHECK(settings.seeds.empty() || !options.Given("--seed"),
                  "--seeds and --seed both say the seeds; give one");
  CROSSTALK_CHECK(settings.seeds.empty() || !settings.out.empty(),
                  "--seeds needs --out: the folder that gets a run for each");
  CheckDistinct("--seeds", settings.seeds);
  if (!task.empty()) SplitList("--task", task);
  ParseTasks(task);
  const Trained origin = OutlineOf(settings);
  FinetuningLength length;
  settings.config = FinetuningUnder(origin, task, options.Values(), settings.epochs, &length);
  CROSSTALK_CHECK(!settings.epochs || settings.config.optimization.steps == 0,
                  "--epochs and --steps both say how long; give one");
  settings.config.optimization.init_from = settings.from;
  MakePathsAbsolute(&settings.config);
  const auto count_examples = [&] {
    TrainingData data;
    data.tokenizer = origin.tokenizer;
    data.tasks = std::make_shared<TaskSet>(OpenTasks(settings.config));
    return CountTrainingExamples(settings.config, data);
  };
  SetSteps(length, count_examples, &settings.config);
  if (settings.config.model.d_model < kSmallestPublished && !options.Given("--learning-rate")) {
    PrintMessage(
        "note: the default --learning-rate of ", *settings.config.optimization.learning_rate,
        " is published for models of 60 million parameters and more; one of a million needs ten times as much");
  }
}

// The dry run of the first seed; the others take the same.
int DryRunOf(FinetuneSettings settings) {
  const std::vector<std::string> folders = FoldersOf(settings);
  std::optional<Checkpoint> checkpoint;
  if (!folders.empty() && RunFolder(folders[0]).HoldsRun()) {
    checkpoint = CheckpointStore(RunFolder(folders[0]).CheckpointDirectory()).FindNewestGood().checkpoint;
  }
  if (!settings.seeds.empty()) settings.config.optimization.seed = settings.seeds[0];
  return DryRun(ResolvedConfig(settings.config), checkpoint, settings.json);
}

// Where answers are written, the end of a long input may be the question.
void NoteCutPrompts(const TrainingRun& run) {
  const TrainingConfig& config = run.config();
  if (ObjectiveOf(config).heads != nullptr) return;
  const CutPrompts prompts =
      CountCutPrompts(config.objective, *run.data().tasks, *run.data().tokenizer, kPromptsLookedAt);
  if (prompts.cut == 0) return;
  PrintMessage("note: ", CountText(prompts.cut), " of ", CountText(prompts.rows), " inputs looked at are longer than ",
               "--input-length = ", config.objective.input_length, " tokens; the end of each is cut off");
}

int Finetune(const OptionTable& options, RankGroup* ranks) {
  FinetuneSettings settings = options.Over({FromField()}, options.Over(FinetuneRunFields()));
  Resolve(options, settings);
  if (settings.dry_run) return DryRunOf(settings);
  const bool many = !settings.seeds.empty();
  if (many) CheckFolderOfSeeds(settings.out, *ResolvedConfig(settings.config));
  if (!many) settings.seeds = {settings.config.optimization.seed};
  const StopSignals signals;
  std::vector<PlannedRun> runs;
  for (const uint64_t seed : settings.seeds) {
    TrainingConfig config = settings.config;
    config.optimization.seed = seed;
    runs.push_back({.title = many ? StrCat("seed ", seed) : "",
                    .config = ResolvedConfig(config),
                    .folder = many ? SeedFolder(settings.out, seed) : settings.out});
  }
  if (settings.out.empty()) {
    std::string name = settings.config.objective.tasks;
    for (char& c : name) c = c == ',' ? '-' : c;
    runs[0].lock = RunLock::OfNewFolder("runs", StrCat(name, "-", settings.config.model.name));
    settings.out = runs[0].lock->folder();
  }
  std::vector<SeedRun> results;
  const auto begun = [ranks](const TrainingRun& run) {
    const OptimizationConfig& optimization = run.config().optimization;
    PrintMessage(run.model().Describe(), ", ", AttentionText(run.model()), "; ", run.data().description, "; ",
                 optimization.steps, " steps of ", optimization.batch, ", ", RanksText(ranks), NumThreads(),
                 NumThreads() == 1 ? " thread" : " threads", "\nrun: ", run.folder().path());
    NoteCutPrompts(run);
  };
  const auto finished = [&results](const TrainingRun& run, const TrainingSummary&) {
    results.push_back(FinishedRun(run.config().optimization.seed, run.folder().path()));
    WriteReportAtEnd(run.folder().path(), nullptr);
  };
  const std::string resumes = StrCat("the same command with --out ", ShellQuoted(settings.out), " resumes");
  const RunCalls calls = {.begun = begun, .finished = finished};
  if (const int code = GoOnWithAll(std::move(runs), resumes, signals, ranks, calls); code != 0) return code;
  if (many) results = WithEarlierSeeds(settings.out, std::move(results));
  const Json json = SeedsJson(results);
  if (many) {
    WriteFileAtomically(settings.out + "/scores.json", json.DumpPretty());
    WriteReportAtEnd(settings.out, nullptr);
  }
  if (settings.json) {
    PrintResult(json);
  } else {
    PrintResult(SeedsText(json));
  }
  PrintMessage("written: ", settings.out, many ? "/scores.json, report.html, seed-*/" : "/scores.json, report.html, ",
               "predictions/");
  return 0;
}

}  // namespace

Command FinetuneCommand() {
  return {
      "finetune", "go on with a trained model on tasks, and score its answers",
      "Trains a model on one or more tasks from their official files, beginning with the weights of a run, a "
      "checkpoint or an imported model, by the published settings for that model and task. A T5 or a language model "
      "learns to write the answers; a BERT or an ALBERT gets a head for them. The run folder gets a training's files "
      "and, from the "
      "checkpoint with the best held-out score, predictions/ in the official formats, scores.json and report.html.\n"
      "The same command resumes an interrupted run. With --seeds each seed has its own run.",
      [](OptionTable& options) -> std::function<int()> {
        options.AddFields<FinetuneSettings>({FromField()});
        options.NameField("init_from", "--from");
        options.AddFields(FieldsOfTraining(), {}, {"init_from", "objective", "data", "validation", "corpus"});
        options.AddFields(FinetuneRunFields());
        AddRankOptions(options);
        options.AddThreads();
        for (const std::string& key : FieldsNotOffered()) options.Hide(key);
        options.ShowFirst({"--from", "--task", "--task-data", "--epochs", "--steps", "--batch", "--learning-rate",
                           "--out", "--seeds", "--dry-run"});
        return [&options] { return WithRanks(options, [&](RankGroup* ranks) { return Finetune(options, ranks); }); };
      }};
}

}  // namespace crosstalk
