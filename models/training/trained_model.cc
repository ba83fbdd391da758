#include "crosstalk/models/training/trained_model.h"

#include <utility>

#include "crosstalk/models/objectives/objective.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/checkpoint_config.h"
#include "crosstalk/models/training/state_dict.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/safetensors.h"

namespace crosstalk {

TrainedModel LoadTrainedModel(const Checkpoint& checkpoint) {
  const CheckpointConfig config = ReadCheckpointConfig(checkpoint);
  const std::string source = checkpoint.FilePath(kConfigName) + ": model";
  TrainedModel trained;
  trained.config = config.training;
  trained.tokenizer = LoadTokenizerFile(TokenizerPath(checkpoint), ObjectiveOf(config.training).tokenizer.sentinels);
  const std::unique_ptr<ModelConfig> model = ReadModelConfig(config.model, source);
  // Published models may have ids above their tokenizer's, which no text has.
  if (trained.tokenizer->vocab_size() > model->vocabulary) {
    Fail(ErrorKind::kData, checkpoint.path, ": the tokenizer has ", trained.tokenizer->vocab_size(),
         " ids, but the model only ", model->vocabulary);
  }
  trained.model = LoadModel(*model, source, ReadSafetensors(checkpoint.FilePath(kModelName)));
  trained.model->SetPrecision(config.training.optimization.precision);
  trained.step = checkpoint.step;
  trained.checkpoint = checkpoint.path;
  return trained;
}

TrainedModel LoadTrainedModel(const std::string& run_folder, WhichCheckpoint which) {
  TrainedModel trained;
  std::vector<std::string> skipped =
      UseCheckpoint(run_folder, which, [&](const Checkpoint& one) { trained = LoadTrainedModel(one); });
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

TrainingConfig ReadCheckpointTraining(const Checkpoint& checkpoint) {
  return ReadCheckpointConfig(checkpoint).training;
}

TrainingConfig ReadRunConfig(const RunFolder& folder) {
  if (!folder.HasRunFile() && folder.HoldsRun()) {
    const FoundCheckpoint found = CheckpointStore(folder.CheckpointDirectory()).FindNewestGood();
    if (found.checkpoint) return ReadCheckpointTraining(*found.checkpoint);
    Fail(ErrorKind::kData, folder.path(),
         ": run.json is missing, and no checkpoint is good:", Lines(ReasonsOf(found.skipped)));
  }
  const Json run = folder.ReadRunFile();
  const Json* configuration = run.Find("configuration");
  if (configuration == nullptr) Fail(ErrorKind::kData, folder.RunFile(), ": has no configuration");
  return TrainingConfigFromJson(*configuration, folder.RunFile() + ": configuration");
}

}  // namespace crosstalk
