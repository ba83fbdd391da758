#include "tools/cli/open_model.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "crosstalk/models/interop/import.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/output.h"

namespace crosstalk {
namespace {

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

bool IsWithin(const std::string& path, const std::string& folder) {
  std::error_code error;
  const std::filesystem::path inner = std::filesystem::weakly_canonical(path, error);
  const std::filesystem::path outer = std::filesystem::weakly_canonical(folder, error);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace

FieldTable<ModelToOpen> ModelToOpenFields(WhichCheckpoint unsaid) {
  using S = ModelToOpen;
  return {MakeOption("MODEL", &S::model, "MODEL",
                     "A run, a checkpoint, an imported model, or a published model's folder.", {.is_path = true}),
          MakeOption("--run", &S::run, "MODEL", "The same as MODEL.", {.is_path = true}),
          MakeOption("--checkpoint", &S::checkpoint, "WHICH",
                     StrCat("last, best, or a checkpoint's path; by default the ",
                            unsaid == WhichCheckpoint::kNewest ? "last." : "best of a run on tasks, else the last."),
                     {.is_path = true, .not_paths = {"last", "best"}})};
}

Trained OpenModel(const ModelToOpen& chosen, OpenOptions options) {
  CROSSTALK_CHECK(chosen.model.empty() || chosen.run.empty(), "MODEL and --run are the same option; give one");
  const std::string& model = chosen.model.empty() ? chosen.run : chosen.model;
  const bool by_path = !chosen.checkpoint.empty() && chosen.checkpoint != "last" && chosen.checkpoint != "best";
  CROSSTALK_CHECK(
      !model.empty() || by_path,
      "MODEL or --run is missing: a run, a checkpoint, an imported model, or a published model's folder (or "
      "--checkpoint PATH)");
  if (by_path && KindOf(chosen.checkpoint) == PathKind::kNothing) {
    Fail(ErrorKind::kData, "--checkpoint ", Quoted(chosen.checkpoint),
         ": there is no checkpoint there; last, best, or a checkpoint's path is expected");
  }
  CROSSTALK_CHECK(model.empty() || !by_path || IsWithin(chosen.checkpoint, model), "--checkpoint ", chosen.checkpoint,
                  " is not of the run ", model, "; give one of the two");
  const RunFolder run(model);
  CROSSTALK_CHECK(chosen.checkpoint.empty() || by_path || run.HoldsRun(), "--checkpoint ", chosen.checkpoint,
                  " is one of a run's, and ", model, " is no run");
  if (by_path && !HasManifest(chosen.checkpoint)) {
    FailField(ErrorKind::kData, "checkpoint", Quoted(chosen.checkpoint), " is no checkpoint: it has no manifest.json");
  }
  if (!by_path && !chosen.checkpoint.empty()) {
    options.which = chosen.checkpoint == "best" ? WhichCheckpoint::kBest : WhichCheckpoint::kNewest;
  }
  Trained trained = Open(by_path ? chosen.checkpoint : model, options);
  const bool tasks = options.which == WhichCheckpoint::kDefault && ObjectiveOf(trained.config).learns_tasks();
  if (!by_path && (tasks || options.which == WhichCheckpoint::kBest)) CheckBestIsThere(run);
  for (const std::string& reason : trained.skipped) PrintMessage("skipped a damaged checkpoint: ", reason);
  for (const std::string& remark : trained.remarks) PrintMessage(remark);
  return trained;
}

void TakePrecision(std::optional<Precision> asked, Model& model) {
  if (asked) model.SetPrecision(*asked);
  if (model.precision() == Precision::kBFloat16) model.RoundWeights();
}

}  // namespace crosstalk
