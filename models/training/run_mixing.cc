#include "crosstalk/models/training/run_mixing.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/checkpoint_config.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/origin.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/models/training/trained_model.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

struct InitialModel {
  std::unique_ptr<Model> model;  // null: not to be had
  std::string text;              // which it is, or why there is none
};

// The origin of a run as it recorded it, if it still stands at its path.
InitialModel FromOrigin(const Origin& recorded, const ModelConfig& model, uint64_t seed) {
  const auto lost = [&](const std::string& reason) -> InitialModel {
    return {nullptr, StrCat("the run began with the weights of ", Excerpt(recorded.checkpoint, 400), ", ", reason)};
  };
  if (KindOf(recorded.checkpoint) != PathKind::kDirectory) return lost("which is not there any more");
  const TrainedModel origin = LoadOrigin(recorded.checkpoint, TrainedParts::kModel);
  if (origin.weights_checksum != recorded.weights) return lost("where other weights stand by now");
  return {LoadModelOf(origin, model, seed).model, StrCat("weights of ", Excerpt(recorded.checkpoint, 400))};
}

InitialModel MakeInitialModel(const RunFolder& folder, const TrainedModel& trained) {
  const ResolvedConfig config(trained.config);
  const CheckpointConfig checkpoint = ReadCheckpointConfig(VerifyCheckpoint(trained.checkpoint));
  if (checkpoint.fingerprint.empty()) return {nullptr, "the model is an imported one, which began elsewhere"};
  if (!checkpoint.origin) {
    const Vocabulary vocabulary = VocabularyOf(*config, trained.tokenizer.get());
    const std::unique_ptr<ModelConfig> model = ConfigureModel(*config, vocabulary);
    // A damaged file may ask for any amount of memory; the model that has been loaded is as large as its file.
    if (model->ToJson() != trained.model->config().ToJson())
      return {nullptr, "its configuration is not that of its model"};
    return {MakeModel(*model, config->optimization.seed), StrCat("initial values, seed ", config->optimization.seed)};
  }
  const std::string first = CheckpointStore(folder.CheckpointDirectory()).PathOf(0);
  if (KindOf(first) == PathKind::kDirectory) {
    return {LoadTrainedModel(VerifyCheckpoint(first)).model,
            StrCat("step 0, the weights of ", Excerpt(checkpoint.origin->checkpoint, 400))};
  }
  return FromOrigin(*checkpoint.origin, trained.model->config(), config->optimization.seed);
}

std::unique_ptr<HeldOut> OpenHeldOut(const TrainedModel& trained, std::shared_ptr<const TextSource> text) {
  const ResolvedConfig config(trained.config);
  TrainingData data;
  data.tokenizer = trained.tokenizer;
  if (ObjectiveOf(*config).learns_tasks()) {
    data.tasks = std::make_shared<TaskSet>(OpenTasks(*config));
  } else {
    data.corpus.validation = text != nullptr ? std::move(text) : OpenCorpus(*config).validation;
  }
  return MakeHeldOut(*config, data);
}

void Measure(const HeldOut& held_out, const Model& model, std::vector<LayerMixing>* layers) {
  const auto evaluate = [&](const StopRequest& done) {
    try {
      held_out.Evaluate(model, {.stop = done});
    } catch (const Interrupted&) {  // all has been seen
    }
  };
  MeasureDynamicMixing(evaluate, layers);
}

}  // namespace

RunMixing MixingOfRun(const std::string& run_folder, const TrainedModel& trained,
                      std::shared_ptr<const TextSource> held_out_text, int64_t most_cubes) {
  RunMixing mixing;
  mixing.measured_in = trained.model->precision();
  mixing.current = {StrCat("step ", trained.step), MixingOf(*trained.model, most_cubes)};
  if (mixing.current.layers.empty()) return mixing;
  InitialModel initial;
  try {
    initial = MakeInitialModel(RunFolder(run_folder), trained);
  } catch (const Error& error) {
    initial.text = error.what();
  }
  if (initial.model != nullptr) {
    initial.model->SetPrecision(mixing.measured_in);
    mixing.initial = {initial.text, MixingOf(*initial.model, most_cubes)};
  } else {
    mixing.no_initial = initial.text;
  }
  const auto depends = [](const LayerMixing& layer) { return layer.DependsOnTokens(); };
  if (std::none_of(mixing.current.layers.begin(), mixing.current.layers.end(), depends)) return mixing;
  try {
    const std::unique_ptr<HeldOut> held_out = OpenHeldOut(trained, std::move(held_out_text));
    Measure(*held_out, *trained.model, &mixing.current.layers);
    if (mixing.initial) Measure(*held_out, *initial.model, &mixing.initial->layers);
  } catch (const Error& error) {
    mixing.not_measured = error.what();
  }
  return mixing;
}

}  // namespace crosstalk
