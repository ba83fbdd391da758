// A run until its first step: the folder, the checkpoint or the origin, the data and the model, each checked before
// anything is written.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "crosstalk/models/model.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/evaluation.h"
#include "crosstalk/models/training/loop.h"
#include "crosstalk/models/training/ranks/rank_group.h"
#include "crosstalk/models/training/ranks/session.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/nn/optim/optimizer.h"

#pragma GCC visibility push(default)
namespace crosstalk {

struct ResumeOptions {
  enum class From {
    kNothing,  // a new run; a folder that holds one is refused
    kNewest,   // the newest good checkpoint of the folder's run, or its beginning if it has none or there is no run
    kPath,     // the checkpoint at `path`, of this folder's run or another's
  };
  From from = From::kNothing;
  std::string path;
};

// A run's state in memory.
struct RunState {
  std::optional<Checkpoint> checkpoint;  // resumed from
  int64_t steps_before = 0;  // of the run that is resumed: less than the configuration's where it is continued
  std::optional<Origin> origin;
  TrainingData data;
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;  // of what this process updates
  std::unique_ptr<RankLeader> leader;    // null: it computes alone
  std::optional<RunEvaluation> last_evaluation;
};

// Whether the folder may be trained in: the errors of TrainingRun's constructor that only need a look.
void CheckFolder(const TrainingConfig& config, const RunFolder& folder, const ResumeOptions& resume);
// The start of a run in the folder: a checkpoint's state, an origin's weights, or initial values. Errors of
// TrainingRun's constructor.
RunState StartRun(const ResolvedConfig& config, const RunFolder& folder, const CheckpointStore& checkpoints,
                  const ResumeOptions& resume, const TrainingObserver& observer, RankGroup* ranks = nullptr);

}  // namespace crosstalk
#pragma GCC visibility pop
