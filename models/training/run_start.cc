#include "crosstalk/models/training/run_start.h"

#include <utility>
#include <vector>

#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/step_cost.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/storage.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

namespace {

// Refuses names before the data is opened, which may take long. They do not depend on the vocabulary.
void CheckFrozen(const TrainingConfig& config) {
  if (FrozenNames(config.optimization).empty()) return;
  const ModelConfig model = ConfigureModel(config, VocabularyOf(config, nullptr));
  const ContextScope no_values(&OpContext::shapes_only, true);
  PrepareModel(config.optimization, *MakeModel(model, config.optimization.seed));
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

class RunStarter {
 public:
  RunStarter(const ResolvedConfig& config, const RunFolder& folder, const CheckpointStore& checkpoints,
             const TrainingObserver& observer, RankGroup* ranks)
      : config_(config), folder_(folder), checkpoints_(checkpoints), observer_(observer), ranks_(ranks) {}

  RunState Start(const ResumeOptions& resume);

 private:
  void FindCheckpoint(const ResumeOptions& resume);
  // The origin's files where the run begins with them; else it is in the checkpoint, or there is none.
  std::optional<Trained> FindOrigin();
  std::shared_ptr<const Tokenizer> KeptTokenizer(const std::optional<Trained>& origin) const;
  void CheckConfiguration(const Checkpoint& checkpoint) const;
  // The model's configuration: that of the training configuration, and of an origin, whose weights it begins with or
  // began with, what a training configuration does not decide.
  ModelConfig ConfigOfModel(const Trained* origin) const;
  void BuildModel(std::optional<Trained> origin);
  void MakeOptimizers(StateTransfer transfer, std::vector<NamedTensor> state);
  void LoadCheckpoint(const Checkpoint& checkpoint);

  const ResolvedConfig& config_;
  const RunFolder& folder_;
  const CheckpointStore& checkpoints_;
  const TrainingObserver& observer_;
  RankGroup* ranks_;
  RunState state_;
  // The state that the optimizers take over.
  StateTransfer transfer_ = StateTransfer::kNone;
  std::vector<NamedTensor> given_;
};

RunState RunStarter::Start(const ResumeOptions& resume) {
  FindCheckpoint(resume);
  CheckFrozen(*config_);
  std::optional<Trained> origin = FindOrigin();
  state_.data = OpenTrainingData(*config_, KeptTokenizer(origin), observer_.stop);
  if (state_.checkpoint) CheckConfiguration(*state_.checkpoint);
  BuildModel(std::move(origin));
  if (state_.checkpoint) LoadCheckpoint(*state_.checkpoint);
  if (ranks_ != nullptr) {
    state_.leader = std::make_unique<RankLeader>(*ranks_, config_, state_.data, *state_.model, transfer_, given_);
  }
  return std::move(state_);
}

void RunStarter::FindCheckpoint(const ResumeOptions& resume) {
  if (resume.from == ResumeOptions::From::kPath) {
    state_.checkpoint = VerifyCheckpoint(resume.path);
    const FoundCheckpoint newest = checkpoints_.FindNewestGood();
    CROSSTALK_CHECK(!newest.checkpoint || newest.checkpoint->step <= state_.checkpoint->step, folder_.path(),
                    ": holds a newer checkpoint (step ", newest.checkpoint->step, ") than ", resume.path, " (step ",
                    state_.checkpoint->step,
                    "); choose another folder to leave both as they are, or resume the newest");
  } else if (resume.from == ResumeOptions::From::kNewest) {
    const FoundCheckpoint found = checkpoints_.FindNewestGood();
    const std::vector<std::string> reasons = ReasonsOf(found.skipped);
    if (!found.checkpoint && !reasons.empty()) {
      Fail(ErrorKind::kData, checkpoints_.directory(), ": no checkpoint there is good:", Lines(reasons));
    }
    for (const std::string& reason : reasons) observer_.Report("skipped a damaged checkpoint: " + reason);
    if (!found.checkpoint && folder_.HoldsRun())
      observer_.Report(folder_.path() + ": no checkpoint yet, beginning at step 1");
    state_.checkpoint = found.checkpoint;
  }
}

// Where a run is resumed with another init_from than it began with, the weights decide whether that is the same.
std::optional<Trained> RunStarter::FindOrigin() {
  const auto refuse = [&](const std::string& source, const std::string& difference) {
    FailField(ErrorKind::kData, "init_from", difference, " (", source, ")",
              "\ntrain in a new folder, or begin with what that run began with");
  };
  const auto text_of = [](const std::optional<Origin>& origin) -> std::string {
    if (!origin) return "initial values";
    return StrCat("weights ", Excerpt(origin->weights), " of ", Excerpt(origin->checkpoint, 4000));
  };
  const std::string& path = config_->optimization.init_from;
  const OptimizerStart start = config_->optimization.optimizer_start;
  const bool begun = folder_.HasRunFile();
  std::optional<Origin> before;
  if (begun) {
    const Json run = folder_.ReadRunFile();
    if (const Json* json = run.Find("origin")) before = FromJson<Origin>(*json, folder_.RunFile() + ": origin");
  }
  if (state_.checkpoint) {
    const CheckpointConfig there = ReadCheckpointConfig(*state_.checkpoint);
    if (there.fingerprint.empty()) {
      Fail(ErrorKind::kUsage, state_.checkpoint->path,
           ": is an imported model, not a training to go on with; begin one with its weights: init_from");
    }
    state_.origin = there.origin;
    if (begun && (before ? before->checksums() : "") != (state_.origin ? state_.origin->checksums() : "")) {
      refuse(state_.checkpoint->path, StrCat(text_of(before), " here, ", text_of(state_.origin), " there"));
    }
    if (path == there.training.optimization.init_from) return std::nullopt;
    const std::optional<Origin> here =
        path.empty() ? std::nullopt : std::optional(OriginOf(LoadOrigin(path, start), start));
    if (!here || !state_.origin || here->checksums() != state_.origin->checksums()) {
      refuse(state_.checkpoint->path, StrCat(text_of(here), " here, ", text_of(state_.origin), " there"));
    }
    return std::nullopt;
  }
  if (path.empty() && !before) return std::nullopt;
  if (path.empty()) refuse(folder_.RunFile(), text_of(std::nullopt) + " here, " + text_of(before) + " there");
  Trained loaded = LoadOrigin(path, start);
  const Origin origin = OriginOf(loaded, start);
  if (begun && (!before || before->checksums() != origin.checksums())) {
    refuse(folder_.RunFile(), StrCat(text_of(origin), " here, ", text_of(before), " there"));
  }
  for (const std::string& reason : loaded.skipped) observer_.Report("skipped a damaged checkpoint: " + reason);
  state_.origin = origin;
  return loaded;
}

std::shared_ptr<const Tokenizer> RunStarter::KeptTokenizer(const std::optional<Trained>& origin) const {
  const int sentinels = ObjectiveOf(*config_).tokenizer.sentinels;
  if (state_.checkpoint) return LoadTokenizerFile(TokenizerPath(*state_.checkpoint), sentinels);
  const std::optional<std::string> file = folder_.HoldsRun() ? folder_.TokenizerFile() : std::nullopt;
  if (file) return LoadTokenizerFile(*file, sentinels);
  return origin ? TokenizerOf(*origin, *config_) : nullptr;
}

void RunStarter::CheckConfiguration(const Checkpoint& checkpoint) const {
  const CheckpointConfig there = ReadCheckpointConfig(checkpoint);
  std::vector<std::string> differences = Differences(*config_, there.training);
  if (differences.empty()) {
    AppendDifferences("model", ConfigOfModel(nullptr).ToJson(), there.model, &differences);
  }
  if (state_.data.fingerprint != there.fingerprint) {
    const bool comparable = Split(state_.data.fingerprint, ':')[0] == Split(there.fingerprint, ':')[0];
    differences.push_back(StrCat(
        "data: the text ", comparable ? "has changed" : "cannot be compared: another version made its fingerprint",
        " (fingerprint ", state_.data.fingerprint, " here, ", Excerpt(there.fingerprint), " there)"));
  }
  if (!differences.empty()) {
    Fail(ErrorKind::kData, checkpoint.path, ": is of another configuration:", Lines(differences),
         "\ntrain in a new folder, or repeat the configuration of that run");
  }
}

ModelConfig RunStarter::ConfigOfModel(const Trained* origin) const {
  if (origin != nullptr) {
    CheckModelOf(*origin, *config_, *state_.data.tokenizer);
    return ConfigureModel(*config_, origin->model->config(), origin->config);
  }
  if (state_.checkpoint) {
    const CheckpointConfig there = ReadCheckpointConfig(*state_.checkpoint);
    if (there.origin) {
      return ConfigureModel(*config_, ReadModelConfig(there.model, state_.checkpoint->path), there.training);
    }
  }
  return ConfigureModel(*config_, VocabularyOf(*config_, state_.data.tokenizer.get()));
}

void RunStarter::BuildModel(std::optional<Trained> origin) {
  const ModelConfig config = ConfigOfModel(origin ? &*origin : nullptr);
  // Parameters of a file come before any memory is taken for what a configuration says.
  if (state_.checkpoint) {
    state_.model = LoadModel(config, "the configuration", ReadSafetensors(state_.checkpoint->FilePath(kModelName)));
  } else if (origin) {
    ModelOfOrigin of_origin = LoadModelOf(*origin, config, config_->optimization.seed);
    state_.model = std::move(of_origin.model);
    if (!of_origin.begun.empty()) observer_.Report("heads with initial values: " + Join(of_origin.begun, ", "));
    if (!of_origin.taken.empty() && state_.data.tasks != nullptr) {
      observer_.Report(StrCat("heads taken over: ", Join(of_origin.taken, ", "),
                              origin->config.objective.tasks.empty()
                                  ? ""
                                  : StrCat(" (from task ", Excerpt(origin->config.objective.tasks), ")")));
    }
    if (!of_origin.left_out.empty()) observer_.Report("heads left out: " + Join(of_origin.left_out, ", "));
    if (const std::string value = NonFiniteValue(*state_.model); !value.empty()) {
      FailField(ErrorKind::kData, "init_from", origin->checkpoint, ": ", value);
    }
  }
  CheckMemory(config_, config, ranks_ == nullptr ? 1 : ranks_->size());
  if (state_.model == nullptr) state_.model = MakeModel(config, config_->optimization.seed);
  PrepareModel(config_->optimization, *state_.model);
  if (state_.checkpoint) {
    MakeOptimizers(StateTransfer::kLoad, ReadSafetensors(state_.checkpoint->FilePath(kOptimizerName)).tensors);
  } else if (origin && config_->optimization.optimizer_start == OptimizerStart::kCarried) {
    try {
      MakeOptimizers(StateTransfer::kCarryOver, std::move(origin->optimizer_state.tensors));
    } catch (const Error& error) {
      FailField(ErrorKind::kUsage, "optimizer_start", error.what(), " (", origin->checkpoint,
                "); choose fresh to begin with no state");
    }
  } else {
    MakeOptimizers(StateTransfer::kNone, {});
  }
}

void RunStarter::MakeOptimizers(StateTransfer transfer, std::vector<NamedTensor> state) {
  const bool alone = ranks_ == nullptr;
  state_.optimizer = MakeOwnOptimizer(*config_, *state_.model, alone ? 0 : ranks_->rank(), alone ? 1 : ranks_->size(),
                                      transfer, state);
  transfer_ = transfer;
  given_ = std::move(state);
}

void RunStarter::LoadCheckpoint(const Checkpoint& checkpoint) {
  const std::string path = checkpoint.FilePath(kStateName);
  const auto state = ReadRecord<CheckpointState>(path);
  if (state.step != checkpoint.step || state_.optimizer->step() != checkpoint.step) {
    Fail(ErrorKind::kData, path, ": step ", state.step, ", but the optimizer's is ", state_.optimizer->step(),
         " and the checkpoint's ", checkpoint.step);
  }
  state_.last_evaluation = state.evaluation;
  state_.steps_before = folder_.HasRunFile() ? ReadRunConfig(folder_).optimization.steps
                                             : ReadCheckpointConfig(checkpoint).training.optimization.steps;
}

}  // namespace

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

RunState StartRun(const ResolvedConfig& config, const RunFolder& folder, const CheckpointStore& checkpoints,
                  const ResumeOptions& resume, const TrainingObserver& observer, RankGroup* ranks) {
  CheckFolder(*config, folder, resume);
  return RunStarter(config, folder, checkpoints, observer, ranks).Start(resume);
}

}  // namespace crosstalk
