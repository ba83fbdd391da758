// `crosstalk eval`: the held-out measures of a trained model.
#include <functional>
#include <memory>
#include <string>

#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/evaluation.h"
#include "crosstalk/models/training/trained_model.h"
#include "crosstalk/runtime/check.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/training_observer.h"

namespace crosstalk {

namespace {

struct EvalSettings {
  std::string run;
  std::string data;
  std::string checkpoint = "last";
  std::optional<int64_t> batch;
  std::optional<int64_t> batches;
  bool json = false;
};

TrainedModel LoadChosen(const EvalSettings& settings) {
  if (settings.checkpoint == "last") return LoadTrainedModel(settings.run, WhichCheckpoint::kNewest);
  if (settings.checkpoint == "best") return LoadTrainedModel(settings.run, WhichCheckpoint::kBest);
  return LoadTrainedModel(VerifyCheckpoint(settings.checkpoint));
}

int Eval(const EvalSettings& settings) {
  CROSSTALK_CHECK(!settings.run.empty() || (settings.checkpoint != "last" && settings.checkpoint != "best"),
                  "--run is missing: the run folder, as `crosstalk train` printed it (or --checkpoint PATH)");
  TrainedModel trained = LoadChosen(settings);
  for (const std::string& reason : trained.skipped) PrintMessage("skipped a damaged checkpoint: ", reason);
  TrainingConfig config = trained.config;
  if (settings.batch) {
    config.batch = *settings.batch;
    config.accumulate = 1;
  }
  if (settings.batches) config.eval_batches = *settings.batches;
  const ResolvedConfig resolved(config);
  const bool own_text = settings.data.empty();
  const std::shared_ptr<const TextSource> source =
      own_text ? OpenCorpus(*resolved).validation : OpenTextSource(settings.data);
  // A text of the user's is measured whole, the run's own as far as in training.
  const EvaluationExtent extent =
      own_text || settings.batches ? EvaluationExtent::kEvalBatches : EvaluationExtent::kWholeText;
  const std::unique_ptr<EvaluationBatches> batches = MakeEvaluation(*resolved, source, trained.tokenizer, extent);
  Progress progress;
  RunEvaluation evaluation;
  evaluation.step = trained.step;
  evaluation.result = Evaluate(*trained.model, *batches, {.stop = {}, .progress = [&](int64_t done, int64_t total) {
                                                            progress.Update(StrCat("batch ", done, " of ", total));
                                                          }});
  evaluation.loss_lower_bound = batches->LossLowerBound();
  if (settings.json) {
    Json json = ToJson(evaluation);
    json.Set("checkpoint", trained.checkpoint).Set("data", source->Describe());
    PrintResult(json);
    return 0;
  }
  PrintResult(StrCat(EvaluationText(evaluation), "\n", trained.checkpoint, " (step ", trained.step, ")\n",
                     source->Describe(), "\n"));
  return 0;
}

}  // namespace

Command EvalCommand() {
  return {"eval", "held-out measures of a run, on its own held-out text or on yours",
          "Loads a checkpoint of a run and measures it on held-out text as training does: ln(PPL) is the mean negative "
          "log-likelihood, in nats, of a target token. The examples are the same for every run with the same lengths "
          "and data.",
          [](OptionTable& options) -> std::function<int()> {
            const auto settings = std::make_shared<EvalSettings>();
            options.Add("--run", &settings->run, "FOLDER", "The run.");
            options.Add("--data", &settings->data, "PATH",
                        "Text to measure on, all of it: a file or folder; the run's held-out part by default.");
            options.Add("--checkpoint", &settings->checkpoint, "WHICH", "last, best, or a checkpoint's path.");
            options.Add("--batch", &settings->batch, "N", "Examples a batch; as in training by default.");
            options.Add("--eval-batches", &settings->batches, "N",
                        "Batches, at most; by default as in training, or all of --data.");
            options.AddFlag("--json", &settings->json, "Result as one JSON object.");
            options.AddThreads();
            return [settings] { return Eval(*settings); };
          }};
}

}  // namespace crosstalk
