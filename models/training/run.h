// TrainingRun: a run folder and what happens in it from the first step to the final model, over any number of
// interruptions. The model's bits depend on the configuration alone, and on the weights that it begins with where it
// names some: not on threads, nor on where the run was cut, nor when it was decided to continue it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/model.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/evaluation.h"
#include "crosstalk/models/training/event_log.h"
#include "crosstalk/models/training/loop.h"
#include "crosstalk/models/training/ranks/reducer.h"
#include "crosstalk/models/training/ranks/session.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/models/training/run_start.h"
#include "crosstalk/runtime/measure.h"

#pragma GCC visibility push(default)
namespace crosstalk {

struct TrainingSummary {
  enum class End { kFinished, kStopped };
  End end = End::kFinished;
  int64_t step = 0;
  int64_t parameters = 0;
  std::optional<RunEvaluation> last_evaluation;
  double seconds = 0;  // of this session
};

class TrainingRun {
 public:
  // Locks the folder, then opens the data, makes or trains the tokenizer, builds the model and, to resume, loads the
  // checkpoint. Nothing is written before all of that has succeeded but the lock, and that goes if there was no run.
  // A run with an origin begins with a checkpoint of its weights: from then on nothing of the origin is needed.
  // Error(kUsage) if `folder` holds a run that is not to be resumed, or other files, or another process trains there.
  // Error(kData) for data that cannot be used, if no checkpoint is good although there are some, or if the checkpoint's
  // configuration differs from `config` (the message names the fields). Error(kResource) if the model cannot fit into
  // memory. Interrupted where observer.stop asks for it while the data is prepared. On rank 0 of `ranks`, the others of
  // which are in ServeRanks, all compute it together, to the same bits; errors of RankLeader.
  TrainingRun(const ResolvedConfig& config, const std::string& folder, const ResumeOptions& resume,
              TrainingObserver observer, RankGroup* ranks = nullptr);
  // The same in a folder that is locked: a new one has its name by its lock.
  TrainingRun(const ResolvedConfig& config, std::unique_ptr<RunLock> lock, const ResumeOptions& resume,
              TrainingObserver observer, RankGroup* ranks = nullptr);
  ~TrainingRun();
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  const RunFolder& folder() const { return folder_; }
  const TrainingConfig& config() const { return *config_; }
  const Model& model() const { return *state_.model; }
  const TrainingData& data() const { return state_.data; }
  int64_t step() const { return state_.optimizer->step(); }  // steps done

  // Goes on to the last step, evaluating and saving on the way; then writes model.safetensors. Error(kNumerical) on a
  // loss or gradient that is not finite: the last checkpoint stands. Error(kResource) on a full disk: so it does.
  // Error(kFailure) if the folder was moved, removed or replaced.
  TrainingSummary Train();

  // The same in pieces: the next step, with the evaluation and the checkpoint that are due after it, or nothing where
  // all are done or the observer asks to stop. Errors as of Train.
  std::optional<StepResult> NextStep();
  // Train's work after its last step: after the last one the end, before it a checkpoint to go on from.
  TrainingSummary Finish();
  // A checkpoint of the steps done, if there is none yet or somebody has written into the parameters since; and then
  // model.safetensors too, if the run has ended.
  void Save();
  const std::optional<RunEvaluation>& last_evaluation() const { return state_.last_evaluation; }

 private:
  void Begin();
  void BeginSession();
  void ReportContinuation() const;
  void WriteRunFile() const;
  void AppendMetrics(const Json& line);
  void AppendPictures();
  bool Due(int64_t every) const;
  bool IsEvaluated() const { return state_.last_evaluation && state_.last_evaluation->step == step(); }
  void DoWhatIsDue();
  void Evaluate();
  void SaveCheckpoint();
  void WriteModelFile() const;
  GradientReducer& reducer() { return ranks_ ? ranks_->reducer() : *alone_; }

  ResolvedConfig config_;
  std::unique_ptr<RunLock> lock_;
  RunFolder folder_;
  TrainingObserver observer_;
  CheckpointStore checkpoints_;
  RunState state_;
  std::unique_ptr<HeldOut> held_out_;
  std::unique_ptr<RankLeader> ranks_;    // null: this process alone
  std::unique_ptr<LocalReducer> alone_;  // the same
  std::unique_ptr<BatchSource> batches_;
  std::unique_ptr<MetricsLog> metrics_;
  EnergyMeter energy_;
  std::unique_ptr<EventLog> events_;    // null: none are asked for
  std::unique_ptr<Loop> loop_;          // null before the first step of this session
  Stopwatch session_;                   // since then
  bool answered_ = false;               // the tasks, by an earlier session
  bool saved_ = false;                  // steps and evaluations, in a checkpoint
  uint64_t weights_ = 0;                // checksum of the parameters that were last saved, loaded or evaluated
  std::optional<Baselines> baselines_;  // of held_out_, once they have been computed
};

}  // namespace crosstalk
#pragma GCC visibility pop
