// TrainingRun until it begins: the folder, the checkpoint or the origin, the data and the model, each checked before
// anything is written.
#include <utility>

#include "crosstalk/models/objectives/objective.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/checkpoint_config.h"
#include "crosstalk/models/training/run.h"
#include "crosstalk/models/training/state_dict.h"
#include "crosstalk/models/training/step_cost.h"
#include "crosstalk/models/training/trained_model.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/shapes_only.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

namespace {

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
  if (FrozenNames(config.optimization).empty()) return;
  const std::unique_ptr<ModelConfig> model = ConfigureModel(config, VocabularyOf(config, nullptr));
  const ContextScope no_values(&OpContext::shapes_only, true);
  PrepareModel(config.optimization, *MakeModel(*model, config.optimization.seed));
}

// "model.d_ff: 40 here, 24 there" of each member that differs, of the first ones where they are many.
void AppendDifferences(const std::string& name, const Json& here, const Json& there,
                       std::vector<std::string>* differences) {
  constexpr size_t kMost = 30;  // of a file that may have any number
  if (here == there || differences->size() >= kMost) return;
  if (!here.is_object() || !there.is_object()) {
    differences->push_back(StrCat(name, ": ", Excerpt(here.Dump()), " here, ", Excerpt(there.Dump()), " there"));
    return;
  }
  for (const auto& [key, value] : here.AsObject()) {
    const Json* other = there.Find(key);
    AppendDifferences(StrCat(name, ".", Excerpt(key)), value, other ? *other : Json(), differences);
  }
  for (const auto& [key, value] : there.AsObject()) {
    if (here.Find(key) == nullptr) AppendDifferences(StrCat(name, ".", Excerpt(key)), Json(), value, differences);
  }
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
      checkpoints_(folder_.CheckpointDirectory()),
      reducer_(config_->optimization.accumulate) {
  CheckFolder(*config_, folder_, resume);
  FindCheckpoint(resume);
  CheckFrozen(*config_);
  std::optional<LoadedOrigin> origin = FindOrigin();
  data_ = OpenTrainingData(*config_, KeptTokenizer(origin), observer_.stop);
  if (checkpoint_) CheckConfiguration(*checkpoint_);
  BuildModel(std::move(origin));
  if (checkpoint_) LoadCheckpoint(*checkpoint_);
  held_out_ = MakeHeldOut(*config_, data_);
  batches_ = MakeBatches(*config_, data_, reducer_.parts(), observer_.stop);
  Begin();
}

TrainingRun::~TrainingRun() = default;

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
    FailField(ErrorKind::kData, "init_from", difference, " (", source, ")",
              "\ntrain in a new folder, or begin with what that run began with");
  };
  const auto text_of = [](const std::optional<Origin>& origin) -> std::string {
    if (!origin) return "initial values";
    return StrCat("weights ", Excerpt(origin->weights), " of ", Excerpt(origin->checkpoint, 4000));
  };
  const std::string& path = config_->optimization.init_from;
  const bool begun = folder_.HasRunFile();
  std::optional<Origin> before;
  if (begun) {
    const Json run = folder_.ReadRunFile();
    if (const Json* json = run.Find("origin")) before = OriginFromJson(*json, folder_.RunFile() + ": origin");
  }
  if (checkpoint_) {
    const CheckpointConfig there = ReadCheckpointConfig(*checkpoint_);
    if (there.fingerprint.empty()) {
      Fail(ErrorKind::kUsage, checkpoint_->path,
           ": is an imported model, not a training to go on with; begin one with its weights: init_from");
    }
    origin_ = there.origin;
    if (begun && (before ? before->checksums() : "") != (origin_ ? origin_->checksums() : "")) {
      refuse(checkpoint_->path, StrCat(text_of(before), " here, ", text_of(origin_), " there"));
    }
    if (path == there.training.optimization.init_from) return std::nullopt;
    const std::optional<Origin> here =
        path.empty() ? std::nullopt : std::optional(LoadOrigin(path, config_->optimization.optimizer_start).origin);
    if (!here || !origin_ || here->checksums() != origin_->checksums()) {
      refuse(checkpoint_->path, StrCat(text_of(here), " here, ", text_of(origin_), " there"));
    }
    return std::nullopt;
  }
  if (path.empty() && !before) return std::nullopt;
  if (path.empty()) refuse(folder_.RunFile(), text_of(std::nullopt) + " here, " + text_of(before) + " there");
  LoadedOrigin loaded = LoadOrigin(path, config_->optimization.optimizer_start);
  if (begun && (!before || before->checksums() != loaded.origin.checksums())) {
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
    AppendDifferences("model", ConfigOfModel(nullptr)->ToJson(), there.model, &differences);
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

std::unique_ptr<ModelConfig> TrainingRun::ConfigOfModel(const LoadedOrigin* origin) const {
  const Vocabulary vocabulary = VocabularyOf(*config_, data_.tokenizer.get());
  if (origin != nullptr) {
    CheckModelOf(*origin, *config_, *data_.tokenizer);
    return ModelUnder(*config_, *origin->model, origin->config, vocabulary);
  }
  if (checkpoint_) {
    const CheckpointConfig there = ReadCheckpointConfig(*checkpoint_);
    if (there.origin)
      return ModelUnder(*config_, *ReadModelConfig(there.model, checkpoint_->path), there.training, vocabulary);
  }
  return ConfigureModel(*config_, vocabulary);
}

void TrainingRun::BuildModel(std::optional<LoadedOrigin> origin) {
  const Vocabulary vocabulary = VocabularyOf(*config_, data_.tokenizer.get());
  const std::unique_ptr<ModelConfig> config = ConfigOfModel(origin ? &*origin : nullptr);
  // Parameters of a file come before any memory is taken for what a configuration says.
  if (checkpoint_) {
    model_ = LoadModel(*config, "the configuration", ReadSafetensors(checkpoint_->FilePath(kModelName)));
  } else if (origin) {
    ModelOfOrigin of_origin = LoadModelOf(*origin, *config, config_->optimization.seed);
    model_ = std::move(of_origin.model);
    if (!of_origin.begun.empty()) Report("heads with initial values: " + Join(of_origin.begun, ", "));
    if (!of_origin.taken.empty() && data_.tasks != nullptr) {
      Report(StrCat("heads taken over: ", Join(of_origin.taken, ", "),
                    origin->config.objective.tasks.empty()
                        ? ""
                        : StrCat(" (from task ", Excerpt(origin->config.objective.tasks), ")")));
    }
    if (!of_origin.left_out.empty()) Report("heads left out: " + Join(of_origin.left_out, ", "));
    if (const std::string value = NonFiniteValue(*model_); !value.empty()) {
      FailField(ErrorKind::kData, "init_from", origin->origin.checkpoint, ": ", value);
    }
  }
  CheckMemory(config_, vocabulary);
  if (model_ == nullptr) model_ = MakeModel(*config, config_->optimization.seed);
  PrepareModel(config_->optimization, *model_);
  optimizer_ = MakeOptimizer(config_->optimization, model_->Parameters());
  if (origin && config_->optimization.optimizer_start == OptimizerStart::kCarried) {
    try {
      optimizer_->CarryOver(std::move(origin->optimizer_state.tensors));
    } catch (const Error& error) {
      FailField(ErrorKind::kUsage, "optimizer_start", error.what(), " (", origin->origin.checkpoint,
                "); choose fresh to begin with no state");
    }
  }
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
  saved_ = true;
  steps_before_ = folder_.HasRunFile() ? ReadRunConfig(folder_).optimization.steps
                                       : ReadCheckpointTraining(checkpoint).optimization.steps;
}

}  // namespace crosstalk
