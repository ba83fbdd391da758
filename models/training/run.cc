#include "crosstalk/models/training/run.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/simd.h"
#include "crosstalk/models/inspection/mixing.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/task_results.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/measure.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

namespace {

RunSession SessionFrom(int64_t step, Precision precision) {
  return {.from_step = step,
          .version = Version(),
          .threads = NumThreads(),
          .simd_target = kernels::SimdTargetName(),
          .platform = GetPlatformInfo(),
          .bfloat16_unit = precision == Precision::kBFloat16 ? kernels::BFloat16UnitName() : ""};
}

uint64_t ChecksumOf(const Module& module) {
  Crc64 checksum;
  for (const NamedTensor& one : ParameterTensors(module)) {
    const int64_t bytes = one.tensor.num_elements() * SizeOf(one.tensor.dtype());
    checksum.Update(one.tensor.raw_data(), static_cast<size_t>(bytes));
  }
  return checksum.value();
}

// Looks before it leaves a lock, so that a folder that is refused stays as it is.
std::unique_ptr<RunLock> LockFolder(const TrainingConfig& config, const std::string& folder,
                                    const ResumeOptions& resume) {
  CheckFolder(config, RunFolder(folder), resume);
  return std::make_unique<RunLock>(folder);
}

}  // namespace

TrainingRun::TrainingRun(const ResolvedConfig& config, const std::string& folder, const ResumeOptions& resume,
                         TrainingObserver observer, RankGroup* ranks)
    : TrainingRun(config, LockFolder(*config, folder, resume), resume, std::move(observer), ranks) {}

TrainingRun::TrainingRun(const ResolvedConfig& config, std::unique_ptr<RunLock> lock, const ResumeOptions& resume,
                         TrainingObserver observer, RankGroup* ranks)
    : config_(config),
      lock_(std::move(lock)),
      folder_(lock_->folder()),
      observer_(std::move(observer)),
      checkpoints_(folder_.CheckpointDirectory()),
      state_(StartRun(config_, folder_, checkpoints_, resume, observer_, ranks)),
      held_out_(MakeHeldOut(*config_, state_.data)),
      ranks_(std::move(state_.leader)),
      alone_(ranks_ ? nullptr : std::make_unique<LocalReducer>(config_->optimization.shards)),
      batches_(MakeBatches(*config_, state_.data, reducer().parts(), observer_.stop)),
      saved_(state_.checkpoint.has_value()),
      weights_(saved_ ? ChecksumOf(*state_.model) : 0) {
  Begin();
}

TrainingRun::~TrainingRun() = default;

// From here on the folder is written to.
void TrainingRun::Begin() {
  for (const std::string& stays : RemoveTemporaries(folder_.path()).failed) observer_.Report(stays);
  for (const std::string& stays : checkpoints_.RemoveStale().failed) observer_.Report(stays);
  if (state_.checkpoint && !folder_.HasRunFile()) {
    observer_.Report(StrCat(folder_.RunFile(), ": missing; written again from ", state_.checkpoint->path));
  }
  if (state_.origin && !state_.checkpoint) {
    observer_.Report(StrCat("begins with the weights of ", state_.origin->checkpoint, " (step ", state_.origin->step,
                            state_.origin->optimizer_state.empty()
                                ? "); optimizer, schedule and step count start from zero"
                                : ") and its optimizer's state; schedule and step count start from zero"));
    SaveCheckpoint();
  }
  if (step() < config_->optimization.steps || !folder_.HasRunFile()) WriteRunFile();
  WriteFileAtomically(folder_.path() + "/" + state_.data.tokenizer->FileName(), state_.data.tokenizer->FileContents());
  const auto kept = IsEvaluated() ? MetricsLog::Evaluated::kYes : MetricsLog::Evaluated::kNo;
  metrics_ = std::make_unique<MetricsLog>(folder_.MetricsFile(), step(), kept);
  if (config_->run.tensorboard) events_ = std::make_unique<EventLog>(folder_.path(), step(), kept);
  if (!metrics_->damage().empty()) observer_.Report(metrics_->damage());
  if (state_.checkpoint) {
    observer_.Report(StrCat("resuming after step ", step(), " of ", config_->optimization.steps, ", from ",
                            state_.checkpoint->path));
    if (state_.steps_before < config_->optimization.steps) ReportContinuation();
  }
}

void TrainingRun::ReportContinuation() const {
  const ScheduleConfig schedule = MakeSchedule(config_->optimization);
  const double before = LearningRate(schedule, state_.steps_before - 1),
               after = LearningRate(schedule, state_.steps_before);
  observer_.Report(StrCat(
      "this run of ", state_.steps_before, " steps is continued to ", config_->optimization.steps,
      "\nwhat stays: weights, optimizer state, step count and order of examples; warmup = ",
      *config_->optimization.warmup, "; eval_every = ", *config_->run.eval_every,
      " and checkpoint_every = ", *config_->run.checkpoint_every, ", which change no bit and may be given again",
      "\nwhat changes: from step ", state_.steps_before + 1, " on the schedule is that of a run of ",
      config_->optimization.steps, " steps, whose learning rate ",
      after > before ? StrCat("rises from ", before, " to ", after) : StrCat("goes from ", before, " to ", after),
      " there; model.safetensors appears at its end",
      KindOf(folder_.ModelFile()) == PathKind::kNothing ? "" : ", and is the earlier one until then"));
}

void TrainingRun::WriteRunFile() const {
  Json sessions = Json::MakeArray();
  RunSession session = SessionFrom(step(), config_->optimization.precision);
  if (ranks_) session.ranks = ranks_->places();
  if (folder_.HasRunFile()) {
    const Json before = folder_.ReadRunFile();
    const JsonReader reader(before, folder_.RunFile());
    for (const Json& earlier : reader.Array("sessions")) {
      FromJson<RunSession>(earlier, folder_.RunFile() + ": sessions");  // refused here if it is none
      sessions.Append(earlier);
    }
  }
  Json run = Json::MakeObject({{"format", kRunFormat}, {"version", Version()}});
  run.Set("seed", Json(config_->optimization.seed)).Set("attention", Name(config_->model.attention.kind));
  run.Set("implementation", AttentionImplementationText(*state_.model));
  run.Set("threads", session.threads).Set("simd_target", session.simd_target);
  run.Set("environment", JsonForm<std::map<std::string, std::string>>::Write(session.platform.environment));
  run.Set("parameters", state_.model->NumParameters());
  run.Set("data", state_.data.description).Set("data_fingerprint", state_.data.fingerprint);
  run.Set("configuration", ToJson(*config_));
  if (state_.origin) run.Set("origin", ToJson(*state_.origin));
  run.Set("model", state_.model->config().ToJson());
  run.Set("sessions", sessions.Append(ToJson(session)));
  WriteFileAtomically(folder_.RunFile(), run.DumpPretty());
}

void TrainingRun::AppendMetrics(const Json& line) {
  lock_->CheckHeld();
  metrics_->Append(line);
  if (events_ != nullptr) events_->AppendScalars(line);
}

void TrainingRun::AppendPictures() {
  if (events_ == nullptr) return;
  std::vector<EventLog::Picture> pictures;
  for (const HeadProjectionTensor& one : StaticHeadProjections(*state_.model)) {
    pictures.push_back({one.name + "/" + one.layer, DrawHeatImage(one.values)});
  }
  events_->AppendPictures(step(), pictures);
}

// Nothing where the observer asks to stop meanwhile.
void TrainingRun::Evaluate() {
  RunEvaluation evaluation{.step = step()};
  try {
    const EvaluationBatches* text = held_out_->batches();
    evaluation.result = ranks_ && text != nullptr ? ranks_->Evaluate(*state_.model, *text)
                                                  : held_out_->Evaluate(*state_.model, {.stop = observer_.stop});
    if (!baselines_) baselines_ = held_out_->FindBaselines(observer_.stop);
  } catch (const Interrupted&) {
    return;
  }
  evaluation.baselines = *baselines_;
  Json event = EvaluationEvent(evaluation);
  // The energy since the last evaluation, this one included.
  if (const std::optional<double> joules = energy_.Joules()) event.Set("joules", *joules);
  AppendMetrics(event);
  AppendPictures();
  state_.last_evaluation = evaluation;
  saved_ = false;
  weights_ = ChecksumOf(*state_.model);
  if (observer_.evaluation) observer_.evaluation(evaluation);
}

void TrainingRun::SaveCheckpoint() {
  if (const std::string value = NonFiniteValue(*state_.model); !value.empty()) {
    Fail(ErrorKind::kNumerical, "after step ", step(), ", ", value,
         ": no checkpoint is made of it, the last one stands. Try a smaller ", FieldName{"learning_rate"}, ".");
  }
  const CheckpointConfig config = {.training = *config_,
                                   .model = state_.model->config().ToJson(),
                                   .fingerprint = state_.data.fingerprint,
                                   .origin = state_.origin};
  const CheckpointState state = {step(), state_.last_evaluation};
  const auto write_optimizer = [this](FileWriter& file) {
    if (ranks_) {
      ranks_->WriteOptimizerState(state_.optimizer->State(), file);
    } else {
      WriteSafetensors(file, state_.optimizer->State());
    }
  };
  const std::vector<CheckpointFile> files = {
      {kModelName, [this](FileWriter& file) { WriteSafetensors(file, ParameterTensors(*state_.model)); }},
      {kOptimizerName, write_optimizer},
      BytesFile(kConfigName, ToJson(config).DumpPretty()),
      BytesFile(kStateName, ToJson(state).DumpPretty()),
      BytesFile(state_.data.tokenizer->FileName(), state_.data.tokenizer->FileContents()),
  };
  lock_->CheckHeld();
  checkpoints_.Save(
      step(), files,
      IsEvaluated() ? std::optional<double>(Score(state_.last_evaluation->result.metrics[0])) : std::nullopt);
  saved_ = true;
  weights_ = ChecksumOf(*state_.model);
  for (const std::string& stays : checkpoints_.Prune(static_cast<int>(config_->run.keep)).failed)
    observer_.Report(stays);
}

// At every `every`-th step and at the end, that of each stage of a run that was continued. The last one before an end
// is left out if the end is less than half an interval away: it would tell nothing new, and its checkpoint would push
// out an older one.
bool TrainingRun::Due(int64_t every) const {
  const int64_t end = EndOfStage(config_->optimization, step());
  if (step() == end) return true;
  return step() > 0 && every > 0 && step() % every == 0 && 2 * (end - step()) >= every;
}

// Evaluates and saves if that is due and has not been done.
void TrainingRun::DoWhatIsDue() {
  if (Due(*config_->run.eval_every) && !IsEvaluated()) Evaluate();
  if (Due(*config_->run.checkpoint_every) && !saved_) SaveCheckpoint();
}

void TrainingRun::Save() {
  const bool known = saved_ || IsEvaluated();
  const bool changed = known && ChecksumOf(*state_.model) != weights_;
  if (changed) state_.last_evaluation.reset();  // the checkpoint's score would be that of other weights
  if (!saved_ || changed) SaveCheckpoint();
  const bool ended = step() == config_->optimization.steps && KindOf(folder_.ModelFile()) != PathKind::kNothing;
  if (changed && ended) WriteModelFile();
}

void TrainingRun::WriteModelFile() const {
  lock_->CheckHeld();
  WriteSafetensors(folder_.ModelFile(), ParameterTensors(*state_.model));
}

void TrainingRun::BeginSession() {
  if (loop_ != nullptr) return;
  session_ = Stopwatch();
  // A finished run's answers stay, even after its best checkpoint is lost.
  answered_ = step() == config_->optimization.steps && HasTaskResults(folder_.path(), config_->optimization.steps);
  loop_ = std::make_unique<Loop>(*state_.model, *batches_, *state_.optimizer, reducer(),
                                 MakeLoopOptions(config_->optimization));
  DoWhatIsDue();  // a run that was cut at a step whose evaluation was due begins with that evaluation
}

std::optional<StepResult> TrainingRun::NextStep() {
  BeginSession();
  if (step() >= config_->optimization.steps || (observer_.stop && observer_.stop())) return std::nullopt;
  StepResult result = loop_->Step();
  saved_ = false;
  if (step() % config_->run.log_every == 0) AppendMetrics(StepEvent(result));
  if (observer_.step) observer_.step(result);
  DoWhatIsDue();
  return result;
}

TrainingSummary TrainingRun::Train() {
  BeginSession();
  while (NextStep()) {
  }
  return Finish();
}

TrainingSummary TrainingRun::Finish() {
  BeginSession();
  bool finished = step() == config_->optimization.steps;
  if (!finished) Save();
  if (!IsEvaluated()) finished = false;  // the signal came in the last evaluation: the run is whole except for that
  if (finished) {
    WriteModelFile();
    if (state_.data.tasks != nullptr && !answered_) {
      try {
        WriteTaskResults(folder_.path(), config_->optimization.steps, *state_.data.tasks, {.stop = observer_.stop});
        answered_ = true;
      } catch (const Interrupted&) {
        finished = false;
      }
    }
  }
  lock_->CheckHeld();
  return {.end = finished ? TrainingSummary::End::kFinished : TrainingSummary::End::kStopped,
          .step = step(),
          .parameters = state_.model->NumParameters(),
          .last_evaluation = state_.last_evaluation,
          .seconds = session_.seconds()};
}

}  // namespace crosstalk
