// A trained model, and its configuration, from the files of a run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/model.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// A trained model taken from a run: from `checkpoint`, or from the newest good one.
struct TrainedModel {
  TrainingConfig config;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<Model> model;
  int64_t step = 0;
  std::string checkpoint;            // its path
  std::vector<std::string> skipped;  // why others were passed over: damaged ones
};
enum class WhichCheckpoint { kNewest, kBest };
// Error(kData) if there is no run, no good checkpoint, or the files do not fit together; of the field "checkpoint"
// where the best is damaged, or a damaged one may be the best. A training may go on in the run meanwhile: where it
// removes the checkpoint, the one that then is the newest or the best is taken.
TrainedModel LoadTrainedModel(const std::string& run_folder, WhichCheckpoint which);
TrainedModel LoadTrainedModel(const Checkpoint& checkpoint);

// Calls use(checkpoint) with the one that is meant, and where a training removes that meanwhile, with the one that then
// is. Why others were passed over is the result: damaged ones. Error(kData) where there is no run or none is good.
std::vector<std::string> UseCheckpoint(const std::string& run_folder, WhichCheckpoint which,
                                       const std::function<void(const Checkpoint& checkpoint)>& use);

// The configuration of a run, from its run.json, or where that is lost from its newest good checkpoint.
TrainingConfig ReadRunConfig(const RunFolder& folder);
// The same from a checkpoint.
TrainingConfig ReadCheckpointTraining(const Checkpoint& checkpoint);

}  // namespace crosstalk
