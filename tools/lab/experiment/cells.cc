#include "tools/lab/experiment/cells.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "crosstalk/models/tasks/task_set.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/run.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"
#include "tools/cli/training.h"

namespace crosstalk {

namespace {

// A finetuning's settings in a scale, without the place of its files, which their fingerprint identifies.
Json RecordOf(CellFinetuning finetuning) {
  Json::Object fields = finetuning.config.AsObject();
  std::erase_if(fields, [](const Json::Member& field) { return field.first == "task_data"; });
  finetuning.config = fields;
  return ToJson(finetuning);
}

// failure.json.
struct FailureRecord {
  std::string stage;
  int exit_code = 0;
  std::string message;

  static FieldTable<FailureRecord> Fields() {
    using F = FailureRecord;
    return {{"stage", &F::stage}, {"exit_code", &F::exit_code}, {"message", &F::message}};
  }
};

// False: it was stopped.
bool TrainRun(const TrainingConfig& config, const std::string& folder, const StopSignals& signals, RankGroup* ranks) {
  const TrainingSummary summary = GoOnWith({.title = {}, .config = ResolvedConfig(config), .folder = folder}, signals,
                                           ranks, {.plain_interval = std::chrono::seconds(30)});
  return summary.end == TrainingSummary::End::kFinished;
}

bool Finetune(const Cell& cell, const CellFinetuning& finetuning, const StopSignals& signals, RankGroup* ranks) {
  const std::optional<std::string> tasks = TaskFolderOf(cell, finetuning);
  if (!tasks) {
    PrintMessage("no files of ", finetuning.tasks, ": not finetuned on; --task-data FOLDER says where they are");
    return true;
  }
  const std::string folder = cell.FinetuningFolder(finetuning);
  const Trained origin = RunFolder(folder).HoldsRun() ? OpenRun(folder, {.which = WhichCheckpoint::kNone})
                                                      : LoadOrigin(cell.PretrainingFolder(), TrainedParts::kTokenizer);
  FinetuningLength length;
  TrainingConfig config = FinetuningOf(cell, finetuning, origin, *tasks, &length);
  TrainingData data;
  data.tokenizer = origin.tokenizer;
  data.tasks = std::make_shared<TaskSet>(OpenTasks(config));
  SetSteps(
      length, [&] { return CountTrainingExamples(config, data); }, &config);
  PrintMessage("finetuning on ", finetuning.tasks, ": ", data.tasks->description);
  if (!RunFolder(folder).HoldsRun()) {
    WriteFileAtomically(cell.FinetuningRecord(finetuning), RecordOf(finetuning).DumpPretty());
  }
  return TrainRun(config, folder, signals, ranks);
}

void RecordFailure(const Cell& cell, const std::string& stage, ErrorKind kind, const std::string& message) {
  PrintMessage("failed: ", cell.Title(), ", ", stage, ": ", message);
  try {
    const FailureRecord failure = {.stage = stage, .exit_code = static_cast<int>(kind), .message = message};
    WriteFileAtomically(cell.FailureFile(), ToJson(failure).DumpPretty());
  } catch (const Error& error) {  // a full disk, which may be why it failed
    PrintMessage(cell.FailureFile(), ": cannot be written: ", error.what());
  }
}

// "d_model: 128 here, 256 there" of a run that is there and would be another.
std::string FirstDifference(const TrainingConfig& here, const TrainingConfig& there) {
  const std::vector<std::string> differences = Differences(*ResolvedConfig(here), there);
  return differences.empty() ? "" : differences[0];
}

// The scale's settings of a finetuning at its start; none where they were not recorded.
std::optional<Json> ScaleRecordIn(const Cell& cell, const CellFinetuning& finetuning) {
  const std::string file = cell.FinetuningRecord(finetuning);
  return Exists(file) ? std::optional<Json>(ReadJsonFile(file)) : std::nullopt;
}

std::string WhyAnotherFinetuning(const Cell& cell, const CellFinetuning& finetuning,
                                 const std::optional<Json>& of_scale, const TrainingConfig& there) {
  if (const Json own = RecordOf(finetuning); of_scale && *of_scale != own) {
    return StrCat("finetuning: ", Excerpt(own.Dump(), 400), " here, ", Excerpt(of_scale->Dump(), 400), " there");
  }
  TrainingConfig here = Given(finetuning.config).Over(TrainingFields(), there);
  here.objective.tasks = finetuning.tasks;
  here.optimization.seed = cell.pretraining.optimization.seed;
  const std::vector<std::string> differences = Differences(here, there);
  return differences.empty() ? "" : differences[0];
}

bool Holds(const std::optional<CellRecord>& kept, const CellFinetuning& finetuning) {
  return kept && kept->finetunings.count(finetuning.tasks) > 0;
}

// Whether a finetuning needs nothing more.
bool IsDone(const Cell& cell, const std::optional<CellRecord>& kept, const CellFinetuning& finetuning) {
  return Holds(kept, finetuning) || IsFinished(cell.FinetuningFolder(finetuning), true);
}

// The result and what finished runs have beside it; none where nothing is to be written.
std::optional<CellRecord> RecordToKeep(const Cell& cell) {
  const std::optional<CellRecord> kept = KeptRecord(cell);
  if (!IsFinished(cell) || !WhyAnother(cell).empty()) return std::nullopt;
  bool more = !kept;
  CellRecord record = kept ? *kept : CellRecord{.pretraining = ReadPretraining(cell.PretrainingFolder())};
  for (const CellFinetuning& one : cell.finetunings) {
    if (Holds(kept, one) || !IsFinished(cell.FinetuningFolder(one), true)) continue;
    if (!WhyAnother(cell, one).empty()) return std::nullopt;
    record.finetunings[one.tasks] = ReadFinetuning(cell, one, record.pretraining);
    more = true;
  }
  return more ? std::optional<CellRecord>(std::move(record)) : std::nullopt;
}

}  // namespace

FieldTable<CellFinetuning> CellFinetuning::Fields() {
  using F = CellFinetuning;
  return {{"task", &F::tasks},
          {"config", &F::config, {.may_be_missing = true}},
          {"epochs", &F::epochs, {.range = {1e-9, 1e6}, .only_if_set = true}}};
}

std::string CellFinetuning::FolderName() const {
  std::string name = tasks;
  std::replace(name.begin(), name.end(), ',', '-');
  return "finetuning-" + name;
}

std::string Cell::Title() const { return StrCat(name, ", seed ", pretraining.optimization.seed); }

std::optional<std::string> TaskFolderOf(const Cell& cell, const CellFinetuning& finetuning) {
  const Json* of_scale = finetuning.config.Find("task_data");
  for (const std::string& folder : {cell.task_data, of_scale == nullptr ? std::string() : of_scale->AsString()}) {
    if (folder.empty()) continue;
    bool to_train_on = false, to_measure_on = true;
    for (const TaskType* task : ParseTasks(finetuning.tasks)) {
      to_train_on = to_train_on || FindTaskFile(*task, folder, TaskSplit::kTrain);
      to_measure_on = to_measure_on && FindTaskFile(*task, folder, TaskSplit::kDev);
    }
    if (to_train_on && to_measure_on) return folder;
  }
  return std::nullopt;
}

TrainingConfig FinetuningOf(const Cell& cell, const CellFinetuning& finetuning, const Trained& origin,
                            const std::string& task_folder, FinetuningLength* length) {
  const Given given(finetuning.config);
  TrainingConfig config = FinetuningUnder(origin, finetuning.tasks, given, finetuning.epochs, length);
  config.objective.task_data = task_folder;
  config.optimization.init_from = cell.PretrainingFolder();
  config.optimization.seed = cell.pretraining.optimization.seed;
  MakePathsAbsolute(&config);
  return config;
}

std::string TextOf(const TrainingConfig& config) {
  return Join({config.model.name, config.data.text, config.data.validation, Name(config.data.corpus)}, "\n");
}

bool IsFinished(const std::string& run_folder, bool has_tasks) {
  const RunFolder folder(run_folder);
  return Exists(folder.ModelFile()) && folder.HasRunFile() && (!has_tasks || Exists(folder.ScoresFile()));
}

bool IsFinished(const Cell& cell) {
  std::optional<CellRecord> kept;
  try {
    kept = KeptRecord(cell);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    return false;  // RunCell says why
  }
  if (!kept && !IsFinished(cell.PretrainingFolder(), false)) return false;
  return std::all_of(cell.finetunings.begin(), cell.finetunings.end(),
                     [&](const CellFinetuning& one) { return IsDone(cell, kept, one) || !TaskFolderOf(cell, one); });
}

std::optional<CellRecord> KeptRecord(const Cell& cell) {
  constexpr uint64_t kMostBytes = 1 << 20;
  const std::string file = cell.ResultFile();
  if (!Exists(file)) return std::nullopt;
  try {
    return FromJson<CellRecord>(ParseJson(ReadFile(file, kMostBytes), file), file);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    Fail(ErrorKind::kData, error.what(), "; without this file the cell's runs count, or it is computed again");
  }
}

void KeepRecord(const Cell& cell) {
  try {
    if (const std::optional<CellRecord> record = RecordToKeep(cell)) {
      WriteFileAtomically(cell.ResultFile(), ToJson(*record).DumpPretty());
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) PrintMessage(cell.Title(), ": its result is not kept: ", error.what());
  }
}

std::optional<std::string> DataFingerprintOf(const Cell& cell) {
  if (const std::optional<CellRecord> kept = KeptRecord(cell)) return kept->pretraining.data_fingerprint;
  const RunFolder folder(cell.PretrainingFolder());
  if (!folder.HasRunFile()) return std::nullopt;
  const Json run = folder.ReadRunFile();
  return JsonReader(run, folder.RunFile()).String("data_fingerprint");
}

std::string WhyAnother(const Cell& cell) {
  const std::optional<CellRecord> kept = KeptRecord(cell);
  const RunFolder folder(cell.PretrainingFolder());
  if (!kept && !folder.HoldsRun()) return "";
  const TrainingConfig there = kept ? kept->pretraining.config : ReadRunConfig(folder);
  if (const std::string difference = FirstDifference(cell.pretraining, there); !difference.empty()) return difference;
  // It changes no bit of the model, but what is measured of it.
  if (cell.pretraining.run.eval_batches == there.run.eval_batches) return "";
  return StrCat("eval_batches: ", cell.pretraining.run.eval_batches, " here, ", there.run.eval_batches, " there");
}

std::string WhyAnother(const Cell& cell, const CellFinetuning& finetuning) {
  if (const std::optional<CellRecord> kept = KeptRecord(cell); Holds(kept, finetuning)) {
    const FinetuningRecord& there = kept->finetunings.at(finetuning.tasks);
    return WhyAnotherFinetuning(cell, finetuning, there.of_scale, kept->ConfigOf(there));
  }
  const RunFolder folder(cell.FinetuningFolder(finetuning));
  if (!folder.HoldsRun()) return "";
  return WhyAnotherFinetuning(cell, finetuning, ScaleRecordIn(cell, finetuning), ReadRunConfig(folder));
}

FinetuningRecord ReadFinetuning(const Cell& cell, const CellFinetuning& finetuning,
                                const PretrainingRecord& pretraining) {
  return ReadFinetuning(cell.FinetuningFolder(finetuning), ScaleRecordIn(cell, finetuning), pretraining.config);
}

int64_t StepOf(const Cell& cell) {
  const RunFolder folder(cell.PretrainingFolder());
  if (!Exists(folder.MetricsFile())) return 0;
  const std::vector<Json> lines = ReadMetrics(folder.MetricsFile());
  return lines.empty() ? 0 : JsonReader(lines.back(), folder.MetricsFile()).Int("step");
}

std::string FailureOf(const Cell& cell) {
  if (!Exists(cell.FailureFile())) return "";
  const auto failure = FromJson<FailureRecord>(ReadJsonFile(cell.FailureFile()), cell.FailureFile());
  return StrCat(Excerpt(failure.stage), ": ", Excerpt(failure.message, 1000));
}

CellEnd RunCell(const Cell& cell, const StopSignals& signals, RankGroup* ranks) {
  std::unique_ptr<RunLock> lock;
  std::string stage = "start";
  try {
    try {
      lock = std::make_unique<RunLock>(cell.folder);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUsage) throw;
      PrintMessage("skipped: ", cell.Title(), ": another process computes it");
      return CellEnd::kLocked;
    }
    if (Exists(cell.FailureFile())) RemoveAtomically(cell.FailureFile());
    const std::optional<CellRecord> kept = KeptRecord(cell);
    if (IsFinished(cell)) {  // by another process, by now, or by one that was killed before it wrote the result
      KeepRecord(cell);
      return CellEnd::kFinished;
    }
    stage = "pretraining";
    if (!IsFinished(cell.PretrainingFolder(), false)) {
      if (kept) PrintMessage("its weights are not there: pretrained again, for the finetunings that its result lacks");
      if (!TrainRun(cell.pretraining, cell.PretrainingFolder(), signals, ranks)) return CellEnd::kStopped;
    }
    for (const CellFinetuning& finetuning : cell.finetunings) {
      stage = "finetuning on " + finetuning.tasks;
      if (!IsDone(cell, kept, finetuning) && !Finetune(cell, finetuning, signals, ranks)) return CellEnd::kStopped;
    }
    KeepRecord(cell);
    return CellEnd::kFinished;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    RecordFailure(cell, stage, error.kind(), error.what());
    if (ranks != nullptr && !ranks->together()) throw;
  } catch (const std::bad_alloc&) {
    RecordFailure(cell, stage, ErrorKind::kResource, "out of memory");
  }
  return CellEnd::kFailed;
}

}  // namespace crosstalk
