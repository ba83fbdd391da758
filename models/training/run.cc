#include "crosstalk/models/training/run.h"

#include <chrono>
#include <cmath>
#include <utility>

#include "crosstalk/kernels/simd.h"
#include "crosstalk/models/objectives/objective.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/step_cost.h"
#include "crosstalk/models/training/checkpoint_config.h"
#include "crosstalk/models/training/state_dict.h"
#include "crosstalk/models/training/trained_model.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/shapes_only.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

namespace {

Json StepEvent(const StepResult& step) {
  Json json = Json::MakeObject({{"event", "train"}, {"step", step.step}, {"loss", step.loss}});
  SetMetrics(json, step.metrics);
  return json.Set("learning_rate", step.learning_rate)
      .Set("gradient_norm", step.gradient_norm)
      .Set("target_tokens", step.target_tokens)
      .Set("tokens", step.tokens)
      .Set("seconds", step.seconds)
      .Set("tokens_per_second", static_cast<double>(step.tokens) / step.seconds);
}

// One process's part of a run: what its speed depends on, and its bits beside the configuration.
Json SessionJson(int64_t step) {
  return Json::MakeObject({{"from_step", step},
                           {"version", Version()},
                           {"threads", NumThreads()},
                           {"simd_target", kernels::SimdTargetName()},
                           {"simd_bits", kernels::SimdBits()},
                           {"platform", ToJson(GetPlatformInfo())}});
}

// Error(kResource) if a step of the configuration does not fit into this machine.
void CheckMemory(const ResolvedConfig& config, const Vocabulary& vocabulary) {
  constexpr const char* kAdvice = ": use a smaller model or batch, a larger accumulate, or activations = recompute";
  const int64_t memory = GetPlatformInfo().total_memory_bytes;
  int64_t bytes = 0;
  try {
    bytes = EstimateStep(config, vocabulary).total_bytes;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kResource) throw;
    Fail(ErrorKind::kResource, "a training step needs more memory than a process can address", kAdvice);
  }
  if (memory > 0 && bytes > memory) {
    Fail(ErrorKind::kResource, "a training step needs ", bytes / 1'000'000, " MB, and this machine has ",
         memory / 1'000'000, " MB", kAdvice);
  }
}

// "embedding[17] is nan" of the first parameter that is not finite; empty if all are.
std::string NonFiniteValue(const Model& model) {
  for (const NamedTensor& parameter : ParameterTensors(model)) {
    const float* values = parameter.tensor.data<float>();
    for (int64_t i = 0; i < parameter.tensor.num_elements(); ++i) {
      if (!std::isfinite(values[i])) return StrCat(parameter.name, "[", i, "] is ", values[i]);
    }
  }
  return "";
}

// Whether the folder may be trained in.
void CheckFolder(const TrainingConfig& config, const RunFolder& folder, const ResumeOptions& resume) {
  if (const std::optional<std::string> name = folder.ForeignName()) {
    Fail(ErrorKind::kUsage, folder.path(), ": holds files that are not a run's (", *name, "); choose a new folder");
  }
  if (resume.from == ResumeOptions::From::kNothing) {
    CROSSTALK_CHECK(!folder.HoldsRun(), folder.path(), ": holds a run already; resume it, or choose another folder");
    return;
  }
  if (!folder.HasRunFile()) return;  // the checkpoint is compared when it is loaded
  const std::vector<std::string> differences = Differences(config, ReadRunConfig(folder));
  if (!differences.empty()) {
    Fail(ErrorKind::kData, folder.RunFile(), ": the run there has another configuration:", Lines(differences),
         "\ntrain in a new folder, or repeat the configuration of that run");
  }
}

// Refuses names before the data is opened, which may take long. They do not depend on the vocabulary.
void CheckFrozen(const TrainingConfig& config) {
  if (config.frozen.empty()) return;
  const Json json = FindModel(config.model).configure(config, VocabularyOf(config, nullptr));
  const ShapesOnlyScope no_values;
  Freeze(config, *MakeModel(json, "configuration", config.seed));
}

// Looks before it leaves a lock, so that a folder that is refused stays as it is.
std::unique_ptr<RunLock> LockFolder(const TrainingConfig& config, const std::string& folder,
                                    const ResumeOptions& resume) {
  CheckFolder(config, RunFolder(folder), resume);
  return std::make_unique<RunLock>(folder);
}

}  // namespace

TrainingRun::TrainingRun(const ResolvedConfig& config, const std::string& folder, const ResumeOptions& resume,
                         TrainingObserver observer)
    : TrainingRun(config, LockFolder(*config, folder, resume), resume, std::move(observer)) {}

TrainingRun::TrainingRun(const ResolvedConfig& config, std::unique_ptr<RunLock> lock, const ResumeOptions& resume,
                         TrainingObserver observer)
    : config_(config),
      lock_(std::move(lock)),
      folder_(lock_->folder()),
      observer_(std::move(observer)),
      checkpoints_(folder_.CheckpointDirectory()) {
  CheckFolder(*config_, folder_, resume);
  FindCheckpoint(resume);
  CheckFrozen(*config_);
  std::optional<LoadedOrigin> origin = FindOrigin();
  data_ = OpenTrainingData(*config_, KeptTokenizer(origin), observer_.stop);
  if (checkpoint_) CheckConfiguration(*checkpoint_);
  BuildModel(std::move(origin));
  if (checkpoint_) LoadCheckpoint(*checkpoint_);
  evaluation_ = MakeEvaluation(*config_, data_.corpus.validation, data_.tokenizer);
  batches_ = MakeBatches(*config_, data_);
  Begin();
}

TrainingRun::~TrainingRun() = default;

void TrainingRun::Report(const std::string& message) const {
  if (observer_.message) observer_.message(message);
}

void TrainingRun::FindCheckpoint(const ResumeOptions& resume) {
  if (resume.from == ResumeOptions::From::kPath) {
    checkpoint_ = VerifyCheckpoint(resume.path);
    const FoundCheckpoint newest = checkpoints_.FindNewestGood();
    CROSSTALK_CHECK(!newest.checkpoint || newest.checkpoint->step <= checkpoint_->step, folder_.path(),
                    ": holds a newer checkpoint (step ", newest.checkpoint->step, ") than ", resume.path, " (step ",
                    checkpoint_->step, "); choose another folder to leave both as they are, or resume the newest");
  } else if (resume.from == ResumeOptions::From::kNewest) {
    const FoundCheckpoint found = checkpoints_.FindNewestGood();
    const std::vector<std::string> reasons = ReasonsOf(found.skipped);
    if (!found.checkpoint && !reasons.empty()) {
      Fail(ErrorKind::kData, checkpoints_.directory(), ": no checkpoint there is good:", Lines(reasons));
    }
    for (const std::string& reason : reasons) Report("skipped a damaged checkpoint: " + reason);
    if (!found.checkpoint && folder_.HoldsRun()) Report(folder_.path() + ": no checkpoint yet, beginning at step 1");
    checkpoint_ = found.checkpoint;
  }
}

// Where a run is resumed with another init_from than it began with, the weights decide whether that is the same.
std::optional<LoadedOrigin> TrainingRun::FindOrigin() {
  const auto refuse = [&](const std::string& source, const std::string& difference) {
    Fail(ErrorKind::kData, source, ": is of another configuration:", Lines({"init_from: " + difference}),
         "\ntrain in a new folder, or leave init_from out");
  };
  const auto text_of = [](const std::optional<Origin>& origin) -> std::string {
    if (!origin) return "initial values";
    return StrCat("weights ", Excerpt(origin->weights), " of ", Excerpt(origin->checkpoint, 4000));
  };
  const std::string& path = config_->init_from;
  const bool begun = folder_.HasRunFile();
  std::optional<Origin> before;
  if (begun) {
    const Json run = folder_.ReadRunFile();
    if (const Json* json = run.Find("origin")) before = OriginFromJson(*json, folder_.RunFile() + ": origin");
  }
  if (checkpoint_) {
    const CheckpointConfig there = ReadCheckpointConfig(*checkpoint_);
    origin_ = there.origin;
    if (begun && (before ? before->weights : "") != (origin_ ? origin_->weights : "")) {
      refuse(checkpoint_->path, StrCat(text_of(before), " here, ", text_of(origin_), " there"));
    }
    if (path == there.training.init_from) return std::nullopt;
    const std::optional<Origin> here = path.empty() ? std::nullopt : std::optional(LoadOrigin(path).origin);
    if (!here || !origin_ || here->weights != origin_->weights) {
      refuse(checkpoint_->path, StrCat(text_of(here), " here, ", text_of(origin_), " there"));
    }
    return std::nullopt;
  }
  if (path.empty() && !before) return std::nullopt;
  if (path.empty()) refuse(folder_.RunFile(), text_of(std::nullopt) + " here, " + text_of(before) + " there");
  LoadedOrigin loaded = LoadOrigin(path);
  if (begun && (!before || before->weights != loaded.origin.weights)) {
    refuse(folder_.RunFile(), StrCat(text_of(loaded.origin), " here, ", text_of(before), " there"));
  }
  for (const std::string& reason : loaded.skipped) Report("skipped a damaged checkpoint: " + reason);
  origin_ = loaded.origin;
  return loaded;
}

std::shared_ptr<const Tokenizer> TrainingRun::KeptTokenizer(const std::optional<LoadedOrigin>& origin) const {
  const int sentinels = ObjectiveOf(*config_).tokenizer.sentinels;
  if (checkpoint_) return LoadTokenizerFile(TokenizerPath(*checkpoint_), sentinels);
  const std::optional<std::string> file = folder_.HoldsRun() ? folder_.TokenizerFile() : std::nullopt;
  if (file) return LoadTokenizerFile(*file, sentinels);
  return origin ? TokenizerOf(*origin, *config_) : nullptr;
}

void TrainingRun::CheckConfiguration(const Checkpoint& checkpoint) const {
  const CheckpointConfig there = ReadCheckpointConfig(checkpoint);
  std::vector<std::string> differences = Differences(*config_, there.training);
  if (differences.empty()) {
    const Json here = FindModel(config_->model).configure(*config_, VocabularyOf(*config_, data_.tokenizer.get()));
    if (here != there.model) {
      differences.push_back(
          StrCat("model: ", Excerpt(here.Dump(), 4000), " here, ", Excerpt(there.model.Dump(), 4000), " there"));
    }
  }
  if (data_.fingerprint != there.fingerprint) {
    const bool comparable = Split(data_.fingerprint, ':')[0] == Split(there.fingerprint, ':')[0];
    differences.push_back(StrCat(
        "data: the text ", comparable ? "has changed" : "cannot be compared: another version made its fingerprint",
        " (fingerprint ", data_.fingerprint, " here, ", Excerpt(there.fingerprint), " there)"));
  }
  if (!differences.empty()) {
    Fail(ErrorKind::kData, checkpoint.path, ": is of another configuration:", Lines(differences),
         "\ntrain in a new folder, or repeat the configuration of that run");
  }
}

void TrainingRun::BuildModel(std::optional<LoadedOrigin> origin) {
  const Vocabulary vocabulary = VocabularyOf(*config_, data_.tokenizer.get());
  const Json json = FindModel(config_->model).configure(*config_, vocabulary);
  // Parameters of a file come before any memory is taken for what a configuration says.
  if (checkpoint_) {
    model_ = LoadModel(json, "the configuration", ReadSafetensors(checkpoint_->FilePath(kModelName)));
  } else if (origin) {
    CheckModelOf(*origin, *config_, *data_.tokenizer);
    model_ = LoadModelOf(*origin, json);
    if (const std::string value = NonFiniteValue(*model_); !value.empty()) {
      FailField(ErrorKind::kData, "init_from", origin->origin.checkpoint, ": ", value);
    }
  }
  CheckMemory(config_, vocabulary);
  if (model_ == nullptr) model_ = MakeModel(json, "configuration", config_->seed);
  model_->SetActivations(config_->activations);
  Freeze(*config_, *model_);
  optimizer_ = MakeOptimizer(*config_, model_->Parameters());
}

void TrainingRun::LoadCheckpoint(const Checkpoint& checkpoint) {
  optimizer_->LoadState(ReadSafetensors(checkpoint.FilePath(kOptimizerName)).tensors);
  const std::string path = checkpoint.FilePath(kStateName);
  const Json state = ReadJsonFile(path);
  const JsonReader reader(state, path);
  if (reader.Int("step") != checkpoint.step || optimizer_->step() != checkpoint.step) {
    Fail(ErrorKind::kData, path, ": step ", reader.Int("step"), ", but the optimizer's is ", optimizer_->step(),
         " and the checkpoint's ", checkpoint.step);
  }
  if (!reader.Value("evaluation").is_null())
    last_evaluation_ = EvaluationFromState(reader.Object("evaluation"), checkpoint.step);
  saved_step_ = checkpoint.step;
  steps_before_ = folder_.HasRunFile() ? ReadRunConfig(folder_).steps : ReadCheckpointTraining(checkpoint).steps;
}

// From here on the folder is written to.
void TrainingRun::Begin() {
  for (const std::string& stays : RemoveTemporaries(folder_.path()).failed) Report(stays);
  for (const std::string& stays : checkpoints_.RemoveStale().failed) Report(stays);
  if (checkpoint_ && !folder_.HasRunFile()) {
    Report(StrCat(folder_.RunFile(), ": missing; written again from ", checkpoint_->path));
  }
  if (origin_ && !checkpoint_) {
    Report(StrCat("begins with the weights of ", origin_->checkpoint, " (step ", origin_->step,
                  "); optimizer, schedule and step count start anew"));
    SaveCheckpoint();
  }
  if (step() < config_->steps || !folder_.HasRunFile()) WriteRunFile();
  WriteFileAtomically(folder_.path() + "/" + data_.tokenizer->FileName(), data_.tokenizer->FileContents());
  const bool evaluated = last_evaluation_ && last_evaluation_->step == step();
  metrics_ = std::make_unique<MetricsLog>(folder_.MetricsFile(), step(),
                                          evaluated ? MetricsLog::Evaluated::kYes : MetricsLog::Evaluated::kNo);
  if (!metrics_->damage().empty()) Report(metrics_->damage());
  if (checkpoint_) {
    Report(StrCat("resuming after step ", step(), " of ", config_->steps, ", from ", checkpoint_->path));
    if (steps_before_ < config_->steps) ReportContinuation();
  }
}

void TrainingRun::ReportContinuation() const {
  const ScheduleConfig schedule = MakeSchedule(*config_);
  const double before = LearningRate(schedule, steps_before_ - 1), after = LearningRate(schedule, steps_before_);
  Report(StrCat(
      "this run of ", steps_before_, " steps is continued to ", config_->steps,
      "\nwhat stays: weights, optimizer state, step count and order of examples; warmup = ", *config_->warmup,
      ", eval_every = ", *config_->eval_every, ", checkpoint_every = ", *config_->checkpoint_every,
      "\nwhat changes: from step ", steps_before_ + 1, " on the schedule is that of a run of ", config_->steps,
      " steps, whose learning rate ",
      after > before ? StrCat("rises from ", before, " to ", after) : StrCat("goes from ", before, " to ", after),
      " there; model.safetensors appears at its end",
      KindOf(folder_.ModelFile()) == PathKind::kNothing ? "" : ", and is the earlier one until then"));
}

void TrainingRun::WriteRunFile() const {
  Json sessions = Json::MakeArray();
  const Json session = SessionJson(step());
  if (folder_.HasRunFile()) {
    const Json before = folder_.ReadRunFile();
    const JsonReader reader(before, folder_.RunFile());
    std::string before_target, before_bits;
    for (const Json& earlier : reader.Array("sessions")) {
      const JsonReader fields(earlier, folder_.RunFile() + ": sessions");
      before_target = fields.String("simd_target");
      before_bits = fields.Has("simd_bits") ? fields.String("simd_bits") : "";
      sessions.Append(earlier);
    }
    if (!before_bits.empty() && before_bits != session.At("simd_bits").AsString()) {
      Report(StrCat("note: this run began with simd_target ", before_target, " and goes on with ",
                    session.At("simd_target").AsString(),
                    ", which rounds a·b + c otherwise: its bits will differ from those of a run that was not moved"));
    }
  }
  Json run = Json::MakeObject({{"format", kRunFormat}, {"version", Version()}});
  run.Set("seed", Json(config_->seed)).Set("attention", Name(config_->attention.kind));
  run.Set("implementation", AttentionImplementationText(*model_));
  for (const char* key : {"threads", "simd_target", "simd_bits"}) run.Set(key, session.At(key));
  run.Set("environment", session.At("platform").At("environment"));
  run.Set("parameters", model_->NumParameters());
  run.Set("data", data_.corpus.description).Set("data_fingerprint", data_.fingerprint);
  run.Set("configuration", ToJson(*config_));
  if (origin_) run.Set("origin", ToJson(*origin_));
  run.Set("model", model_->ConfigJson());
  run.Set("sessions", sessions.Append(session));
  WriteFileAtomically(folder_.RunFile(), run.DumpPretty());
}

void TrainingRun::AppendMetrics(const Json& line) {
  lock_->CheckHeld();
  metrics_->Append(line);
}

RunEvaluation TrainingRun::RunEvaluationNow() {
  RunEvaluation evaluation;
  evaluation.step = step();
  evaluation.result = Evaluate(*model_, *evaluation_, {.stop = observer_.stop, .progress = {}});
  if (!evaluation.result.finished) return evaluation;
  if (!loss_lower_bound_) {
    const std::optional<double> bound = evaluation_->LossLowerBound(observer_.stop);
    if (!bound && observer_.stop && observer_.stop()) {
      evaluation.result.finished = false;
      return evaluation;
    }
    loss_lower_bound_ = bound;
  }
  evaluation.loss_lower_bound = *loss_lower_bound_;
  AppendMetrics(EvaluationEvent(evaluation));
  last_evaluation_ = evaluation;
  if (observer_.evaluation) observer_.evaluation(evaluation);
  return evaluation;
}

void TrainingRun::SaveCheckpoint() {
  if (const std::string value = NonFiniteValue(*model_); !value.empty()) {
    Fail(ErrorKind::kNumerical, "after step ", step(), ", ", value,
         ": no checkpoint is made of it, the last one stands. Try a smaller learning_rate.");
  }
  const bool evaluated = last_evaluation_ && last_evaluation_->step == step();
  Json config = Json::MakeObject({{"format", kRunFormat},
                                  {"version", Version()},
                                  {"data_fingerprint", data_.fingerprint},
                                  {"training", ToJson(*config_)},
                                  {"model", model_->ConfigJson()}});
  if (origin_) config.Set("origin", ToJson(*origin_));
  const Json state = Json::MakeObject(
      {{"step", step()}, {"evaluation", last_evaluation_ ? EvaluationState(*last_evaluation_) : Json()}});
  const std::vector<CheckpointFile> files = {
      {kModelName, [this](FileWriter& file) { WriteSafetensors(file, ParameterTensors(*model_)); }},
      {kOptimizerName, [this](FileWriter& file) { WriteSafetensors(file, optimizer_->State()); }},
      BytesFile(kConfigName, config.DumpPretty()),
      BytesFile(kStateName, state.DumpPretty()),
      BytesFile(data_.tokenizer->FileName(), data_.tokenizer->FileContents()),
  };
  lock_->CheckHeld();
  checkpoints_.Save(step(), files,
                    evaluated ? std::optional<double>(Score(last_evaluation_->result.metrics[0])) : std::nullopt);
  saved_step_ = step();
  for (const std::string& stays : checkpoints_.Prune(static_cast<int>(config_->keep)).failed) Report(stays);
}

// At every `every`-th step and at the end, that of each stage of a run that was continued. The last one before an end
// is left out if the end is less than half an interval away: it would tell nothing new, and its checkpoint would push
// out an older one.
bool TrainingRun::Due(int64_t every) const {
  const int64_t end = EndOfStage(*config_, step());
  if (step() == end) return true;
  return step() > 0 && every > 0 && step() % every == 0 && 2 * (end - step()) >= every;
}

TrainingSummary TrainingRun::Train() {
  const auto start = std::chrono::steady_clock::now();
  TrainerOptions options;
  options.schedule = MakeSchedule(*config_);
  options.parts = config_->accumulate;
  options.clip_norm = config_->clip;
  options.loss = MakeLossOptions(*config_);
  options.denominator = config_->loss_denominator;
  options.seed = config_->seed;
  Trainer trainer(*model_, *optimizer_, *batches_, options);

  const auto stopping = [&] { return observer_.stop && observer_.stop(); };
  bool stopped = false;
  // A run that was cut at a step whose evaluation was due begins with that evaluation.
  for (bool first = true;; first = false) {
    if (!first) {
      const StepResult result = trainer.Step();
      if (step() % config_->log_every == 0) AppendMetrics(StepEvent(result));
      if (observer_.step) observer_.step(result);
    }
    bool changed = false;
    if (Due(*config_->eval_every) && !(last_evaluation_ && last_evaluation_->step == step())) {
      changed = RunEvaluationNow().result.finished;
    }
    stopped = stopping() && step() < config_->steps;
    if ((stopped || Due(*config_->checkpoint_every)) && (changed || saved_step_ != step())) SaveCheckpoint();
    if (stopped || step() == config_->steps) break;
  }
  TrainingSummary summary;
  summary.step = step();
  summary.parameters = model_->NumParameters();
  if (stopped) {
    summary.end = TrainingSummary::End::kStopped;
  } else {
    if (!(last_evaluation_ && last_evaluation_->step == step())) {
      // The signal came in the last evaluation: the run is whole but for that.
      summary.end = TrainingSummary::End::kStopped;
    } else {
      lock_->CheckHeld();
      WriteSafetensors(folder_.ModelFile(), ParameterTensors(*model_));
    }
  }
  lock_->CheckHeld();
  summary.last_evaluation = last_evaluation_;
  summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return summary;
}

}  // namespace crosstalk
