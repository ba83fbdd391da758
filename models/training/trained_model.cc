#include "crosstalk/models/training/trained_model.h"

#include <utility>

#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/checkpoint_config.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/safetensors.h"

namespace crosstalk {

namespace {

std::shared_ptr<const Tokenizer> ReadTokenizer(const Checkpoint& checkpoint, const TrainingConfig& config,
                                               bool may_be_missing) {
  if (may_be_missing && !RunFolder(checkpoint.path).TokenizerFile()) return nullptr;
  return LoadTokenizerFile(TokenizerPath(checkpoint), ObjectiveOf(config).tokenizer.sentinels);
}

std::string ChecksumOf(const Checkpoint& checkpoint, const char* file) {
  const auto found = checkpoint.checksums.find(file);
  return found == checkpoint.checksums.end() ? "" : found->second;
}

std::unique_ptr<Model> ReadModel(const Checkpoint& checkpoint, const CheckpointConfig& config,
                                 const Tokenizer* tokenizer, const TrainedOptions& options) {
  const std::string source = checkpoint.FilePath(kConfigName) + ": model";
  const std::unique_ptr<ModelConfig> model_config = ReadModelConfig(config.model, source);
  // Published models may have ids above their tokenizer's, which no text has.
  if (tokenizer != nullptr && tokenizer->vocab_size() > model_config->vocabulary) {
    Fail(ErrorKind::kData, checkpoint.path, ": the tokenizer has ", tokenizer->vocab_size(),
         " ids, but the model only ", model_config->vocabulary);
  }
  if (options.implementation) model_config->SetImplementation(*options.implementation);
  std::unique_ptr<Model> model =
      LoadModel(*model_config, source, ReadSafetensors(checkpoint.FilePath(kModelName)), options.dtype);
  if (options.dtype == DType::kFloat32) model->SetPrecision(config.training.optimization.precision);
  return model;
}

}  // namespace

TrainedModel LoadTrainedModel(const Checkpoint& checkpoint, const TrainedOptions& options) {
  const CheckpointConfig config = ReadCheckpointConfig(checkpoint);
  TrainedModel trained;
  trained.config = config.training;
  trained.step = checkpoint.step;
  trained.checkpoint = checkpoint.path;
  trained.weights_checksum = ChecksumOf(checkpoint, kModelName);
  trained.optimizer_checksum = ChecksumOf(checkpoint, kOptimizerName);
  trained.has_optimizer_state = !trained.optimizer_checksum.empty();
  if (options.parts == TrainedParts::kConfig) return trained;
  trained.tokenizer = ReadTokenizer(checkpoint, config.training, options.tokenizer_may_be_missing);
  if (options.parts == TrainedParts::kTokenizer) return trained;
  trained.model = ReadModel(checkpoint, config, trained.tokenizer.get(), options);
  if (options.parts == TrainedParts::kModel) return trained;
  trained.optimizer_state = ReadSafetensors(checkpoint.FilePath(kOptimizerName));
  return trained;
}

TrainedModel LoadTrainedModel(const std::string& run_folder, WhichCheckpoint which, const TrainedOptions& options) {
  TrainedModel trained;
  std::vector<std::string> skipped =
      UseCheckpoint(run_folder, which, [&](const Checkpoint& one) { trained = LoadTrainedModel(one, options); });
  trained.skipped = std::move(skipped);
  return trained;
}

std::vector<std::string> UseCheckpoint(const std::string& run_folder, WhichCheckpoint which,
                                       const std::function<void(const Checkpoint& checkpoint)>& use) {
  const RunFolder folder(run_folder);
  if (!folder.HoldsRun() || folder.HasRunFile()) folder.ReadRunFile();
  const CheckpointStore store(folder.CheckpointDirectory());
  while (true) {
    const FoundCheckpoint found = which == WhichCheckpoint::kBest ? store.FindBest() : store.FindNewestGood();
    const std::vector<std::string> skipped = ReasonsOf(found.skipped);
    if (found.checkpoint && found.better) {
      FailField(ErrorKind::kData, "checkpoint", run_folder,
                ": a damaged one is the best, or may be: ", found.better->reason,
                "\nname another one; or remove this one, and the best of the others is the best");
    }
    const bool finished = KindOf(folder.ModelFile()) != PathKind::kNothing;
    if (!found.checkpoint && skipped.empty() && store.Steps().empty() && !finished) {
      Fail(ErrorKind::kData, run_folder, ": has no checkpoint yet; its training saves them by checkpoint_every = ",
           *ResolvedConfig(ReadRunConfig(folder))->run.checkpoint_every,
           ", at its end and where it is interrupted: wait for the first, or train with a smaller checkpoint_every");
    }
    if (!found.checkpoint) {
      Fail(ErrorKind::kData, run_folder, ": has no good checkpoint",
           which == WhichCheckpoint::kBest ? " with a score" : "", skipped.empty() ? "" : ":" + Lines(skipped));
    }
    try {
      use(*found.checkpoint);
      return skipped;
    } catch (const Error&) {
      // A training that goes on in the run removes a checkpoint only when there is a newer one.
      if (KindOf(found.checkpoint->path) != PathKind::kNothing) throw;
    }
  }
}

TrainingConfig ReadRunConfig(const RunFolder& folder) {
  if (!folder.HasRunFile() && folder.HoldsRun()) {
    const FoundCheckpoint found = CheckpointStore(folder.CheckpointDirectory()).FindNewestGood();
    if (found.checkpoint) return ReadCheckpointConfig(*found.checkpoint).training;
    Fail(ErrorKind::kData, folder.path(),
         ": run.json is missing, and no checkpoint is good:", Lines(ReasonsOf(found.skipped)));
  }
  const Json run = folder.ReadRunFile();
  const Json* configuration = run.Find("configuration");
  if (configuration == nullptr) Fail(ErrorKind::kData, folder.RunFile(), ": has no configuration");
  return TrainingConfigFromJson(*configuration, folder.RunFile() + ": configuration");
}

}  // namespace crosstalk
