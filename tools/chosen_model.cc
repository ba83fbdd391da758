#include "tools/chosen_model.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/check.h"
#include "tools/output.h"

namespace crosstalk {
namespace {

TrainedModel Load(const ChosenModel& chosen) {
  if (chosen.checkpoint == "last") return LoadTrainedModel(chosen.run, WhichCheckpoint::kNewest);
  if (chosen.checkpoint == "best") return LoadTrainedModel(chosen.run, WhichCheckpoint::kBest);
  return LoadTrainedModel(VerifyCheckpoint(chosen.checkpoint));
}

bool IsWithin(const std::string& path, const std::string& folder) {
  std::error_code error;
  const std::filesystem::path inner = std::filesystem::weakly_canonical(path, error);
  const std::filesystem::path outer = std::filesystem::weakly_canonical(folder, error);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace

void AddChosenModel(OptionTable& options, ChosenModel* chosen) {
  options.Add("--run", &chosen->run, "FOLDER", "The run.");
  options.Add("--checkpoint", &chosen->checkpoint, "WHICH", "last, best, or a checkpoint's path.");
}

TrainedModel LoadChosenModel(const ChosenModel& chosen) {
  CROSSTALK_CHECK(!chosen.run.empty() || (chosen.checkpoint != "last" && chosen.checkpoint != "best"),
                  "--run is missing: the run folder, as `crosstalk train` printed it (or --checkpoint PATH)");
  CROSSTALK_CHECK(chosen.run.empty() || chosen.checkpoint == "last" || chosen.checkpoint == "best" ||
                      IsWithin(chosen.checkpoint, chosen.run),
                  "--checkpoint ", chosen.checkpoint, " is not of the run ", chosen.run, "; give one of the two");
  TrainedModel trained = Load(chosen);
  for (const std::string& reason : trained.skipped) PrintMessage("skipped a damaged checkpoint: ", reason);
  return trained;
}

}  // namespace crosstalk
