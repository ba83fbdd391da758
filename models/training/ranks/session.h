// A training run on several ranks: rank 0 has the run, its folder, its checkpoints and its observer, and asks the
// others to take part in what they compute together. What they need they get from it, except the text or the tasks,
// which each opens by itself.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/evaluation.h"
#include "crosstalk/models/training/objectives/batches.h"
#include "crosstalk/models/training/ranks/rank_group.h"
#include "crosstalk/models/training/ranks/reducer.h"
#include "crosstalk/nn/optim/optimizer.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// How an optimizer takes over a state that it did not compute.
enum class StateTransfer { kNone, kLoad, kCarryOver };

// The optimizer of the parameters that a rank owns, with its part of a state of all parameters' optimizer.
std::unique_ptr<Optimizer> MakeOwnOptimizer(const TrainingConfig& config, const Model& model, int rank, int ranks,
                                            StateTransfer transfer, const std::vector<NamedTensor>& state);

// Rank 0's side of a run.
class RankLeader {
 public:
  // Tells the others of the run, and waits until each is ready. Error(kUsage) that names rank and host where one is of
  // another version, computes other bits, or has other text; Error of the kind that it met where one cannot take part;
  // nothing is trained then. Refers to the group and the model.
  RankLeader(RankGroup& group, const ResolvedConfig& config, const TrainingData& data, const Model& model,
             StateTransfer transfer, const std::vector<NamedTensor>& state);
  // Lets the others wait for the next run, unless an error has cut off what they compute.
  ~RankLeader();
  RankLeader(const RankLeader&) = delete;
  RankLeader& operator=(const RankLeader&) = delete;

  GradientReducer& reducer() { return *reducer_; }
  // {"host", "threads", "simd_target"} of each rank.
  const Json& places() const { return places_; }
  EvaluationResult Evaluate(const Model& model, const EvaluationBatches& batches);
  // Writes the state of all parameters into a file, given that of this rank's. Of the others' it holds one tensor at a
  // time.
  void WriteOptimizerState(const std::vector<NamedTensor>& own, FileWriter& file);

 private:
  RankGroup& group_;
  std::unique_ptr<GradientReducer> reducer_;
  Json places_ = Json::MakeArray();
};

// Rank 0: crosstalk::Evaluate of a model on batches of `text`, which is at `path`, or if that is empty the
// configuration's held-out text, which each rank opens by itself. Errors of RankLeader.
EvaluationResult EvaluateOnRanks(RankGroup& group, const ResolvedConfig& config, const Tokenizer& tokenizer,
                                 const Model& model, const EvaluationBatches& batches, const TextSource& text,
                                 const std::string& path, EvaluationExtent extent);

// The other ranks' side: takes part in the runs of rank 0 until it ends. Errors of a rank that cannot go on.
void ServeRanks(RankGroup& group);
// Rank 0: lets ServeRanks of the others return.
void EndRanks(RankGroup& group);

}  // namespace crosstalk
#pragma GCC visibility pop
