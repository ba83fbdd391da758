#include "tools/cli/chosen_model.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "tools/cli/output.h"

namespace crosstalk {
namespace {

bool IsPath(const std::string& checkpoint) {
  return !checkpoint.empty() && checkpoint != "last" && checkpoint != "best";
}

// scores.json names the step of the best checkpoint that the run had at its end. One that goes on may find a better.
void CheckBestIsThere(const RunFolder& folder) {
  if (KindOf(folder.ScoresFile()) == PathKind::kNothing) return;
  const CheckpointStore store(folder.CheckpointDirectory());
  const Json scores = ReadJsonFile(folder.ScoresFile());
  const int64_t step = JsonReader(scores, folder.ScoresFile()).Int("step");
  const std::vector<int64_t> steps = store.Steps();
  const bool there = std::find(steps.begin(), steps.end(), step) != steps.end();
  if (there || steps.empty() || steps.back() < ReadRunConfig(folder).optimization.steps) return;
  FailField(ErrorKind::kData, "checkpoint", store.PathOf(step), ", the best one, of which ", folder.ScoresFile(),
            " is, is missing; name another one: last, or one's path");
}

TrainedModel LoadBest(const std::string& run) {
  TrainedModel best = LoadTrainedModel(run, WhichCheckpoint::kBest);
  CheckBestIsThere(RunFolder(run));
  return best;
}

TrainedModel Load(const ChosenModel& chosen) {
  if (IsPath(chosen.checkpoint)) return LoadTrainedModel(VerifyCheckpoint(chosen.checkpoint));
  if (chosen.checkpoint == "best") return LoadBest(chosen.run);
  TrainedModel newest = LoadTrainedModel(chosen.run, WhichCheckpoint::kNewest);
  if (chosen.checkpoint == "last" || !ObjectiveOf(newest.config).learns_tasks()) return newest;
  const FoundCheckpoint best = CheckpointStore(RunFolder(chosen.run).CheckpointDirectory()).FindBest();
  return best.checkpoint || best.better ? LoadBest(chosen.run) : std::move(newest);
}

bool IsWithin(const std::string& path, const std::string& folder) {
  std::error_code error;
  const std::filesystem::path inner = std::filesystem::weakly_canonical(path, error);
  const std::filesystem::path outer = std::filesystem::weakly_canonical(folder, error);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace

const FieldTable<ChosenModel>& ChosenModelFields() {
  using S = ChosenModel;
  static const FieldTable<S> table = {
      MakeOption("--run", &S::run, "FOLDER", "The run.", {.is_path = true}),
      MakeOption("--checkpoint", &S::checkpoint, "WHICH",
                 "last, best, or a checkpoint's path; by default the best of a run on tasks, else the last.",
                 {.is_path = true, .not_paths = {"last", "best"}}),
      PrecisionField(&S::precision)};
  return table;
}

TrainedModel LoadChosenModel(const ChosenModel& chosen) {
  CROSSTALK_CHECK(!chosen.run.empty() || IsPath(chosen.checkpoint),
                  "--run is missing: the run folder, as `crosstalk train` printed it (or --checkpoint PATH)");
  CROSSTALK_CHECK(chosen.run.empty() || !IsPath(chosen.checkpoint) || IsWithin(chosen.checkpoint, chosen.run),
                  "--checkpoint ", chosen.checkpoint, " is not of the run ", chosen.run, "; give one of the two");
  TrainedModel trained = Load(chosen);
  for (const std::string& reason : trained.skipped) PrintMessage("skipped a damaged checkpoint: ", reason);
  TakePrecision(chosen.precision, *trained.model);
  return trained;
}

void TakePrecision(std::optional<Precision> asked, Model& model) {
  if (asked) model.SetPrecision(*asked);
  if (model.precision() == Precision::kBFloat16) model.RoundWeights();
}

}  // namespace crosstalk
