// `crosstalk eval`: the held-out measures of a trained model.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/evaluation.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/ranks/session.h"
#include "tools/cli/command.h"
#include "tools/cli/open_model.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"
#include "tools/cli/ranks.h"
#include "tools/cli/training.h"

namespace crosstalk {

namespace {

struct EvalSettings {
  ModelToOpen chosen;
  std::optional<Precision> precision;
  std::string data;
  std::string text_field;
  std::optional<int64_t> batch;
  std::optional<int64_t> eval_batches;
  std::optional<int64_t> length, stride;
  bool json = false;
};

FieldTable<EvalSettings> EvalFields() {
  using S = EvalSettings;
  return Joined(FieldsOfPart(ModelToOpenFields(WhichCheckpoint::kDefault), &S::chosen),
                {PrecisionField(&S::precision),
                 MakeOption("--data", &S::data, "PATH",
                            "Text to measure on, completely: a file or folder; the run's held-out part by default. For "
                            "a run on tasks, a folder with their files.",
                            {.is_path = true}),
                 MakeOption("--text-field", &S::text_field, "NAME",
                            "Name of the string that is the text in a line of JSONL of --data; as in training by "
                            "default."),
                 MakeOption("--batch", &S::batch, "N", "Examples a batch; as in training by default."),
                 MakeOption("--eval-batches", &S::eval_batches, "N",
                            "Most batches; by default as in training, or all of --data."),
                 MakeOption("--length", &S::length, "N",
                            "A language model measured as published ones are: on all of a text, in windows of N "
                            "tokens; the model's context by default where --stride is given."),
                 MakeOption("--stride", &S::stride, "N",
                            "Tokens from one window to the next, each of which scores its last N; half of --length "
                            "by default. Fewer give each token more context, and take longer."),
                 MakeOption("--json", &S::json, "", "Result as one JSON object.")});
}

// A published folder has no text to be measured on, which an import records, and may lack the head.
void CheckPublished(const EvalSettings& settings, const Trained& trained) {
  const bool is_folder = trained.weights_checksum.empty();
  CROSSTALK_CHECK(!is_folder || !settings.data.empty(), "--data is missing: ", trained.checkpoint,
                  " is a published model, which has no held-out text of its own");
  const ObjectiveType& objective = ObjectiveOf(trained.config);
  CROSSTALK_CHECK(objective.heads == nullptr || trained.model->heads().masked_lm, trained.checkpoint,
                  ": has no head for hidden tokens, which ", objective.name,
                  " is measured by; a task that it has a head for is answered by `crosstalk predict`");
}

// A run's evaluation data, and their name.
struct Measured {
  std::unique_ptr<HeldOut> held_out;
  std::string data;
  const char* part;                                  // what progress counts
  std::shared_ptr<const TextSource> text = nullptr;  // of text
  EvaluationExtent extent = EvaluationExtent::kEvalBatches;
};

void WarnOfUnknownTokens(const TextSource& text, const Trained& trained) {
  const std::string warning = UnknownTokensWarning(text, *trained.tokenizer);
  if (!warning.empty()) PrintMessage("warning: ", warning);
}

Measured OpenText(const EvalSettings& settings, const ResolvedConfig& config, const Trained& trained) {
  const bool own_text = settings.data.empty();
  const std::shared_ptr<const TextSource> source =
      own_text ? OpenCorpus(*config).validation : OpenTextSource(settings.data, {}, config->data.text_field);
  // A text of the user's is measured whole, the run's own as far as in training.
  const EvaluationExtent extent =
      own_text || settings.eval_batches ? EvaluationExtent::kEvalBatches : EvaluationExtent::kWholeText;
  WarnOfUnknownTokens(*source, trained);
  return {MakeHeldOutText(MakeEvaluation(*config, source, trained.tokenizer, extent)), source->Describe(), "batch",
          source, extent};
}

// Windows over all of a text, whatever a run's objective is.
Measured OpenWindows(const EvalSettings& settings, const TrainingConfig& config, const Trained& trained) {
  CROSSTALK_CHECK(!settings.batch && !settings.eval_batches, settings.batch ? "--batch" : "--eval-batches",
                  " is not for windows, which --length and --stride measure all of a text in");
  CROSSTALK_CHECK(!settings.data.empty() || !ObjectiveOf(config).learns_tasks(),
                  "--data is missing: the text to measure on");
  const std::shared_ptr<const TextSource> text =
      settings.data.empty() ? OpenCorpus(config).validation : OpenTextSource(settings.data, {}, config.data.text_field);
  CROSSTALK_CHECK(text->num_bytes().has_value(), "--data is missing: ", text->Describe(), " has no end");
  const ModelConfig& model = trained.model->config();
  WindowOptions windows = {.length = settings.length.value_or(model.context)};
  windows.stride = settings.stride.value_or(std::max<int64_t>(1, windows.length / 2));
  WarnOfUnknownTokens(*text, trained);
  return {MakeHeldOutWindows(model, *text, *trained.tokenizer, windows),
          StrCat(text->Describe(), ", windows of ", windows.length, " tokens, ", windows.stride, " apart"), "window"};
}

Measured OpenTaskRows(const EvalSettings& settings, TrainingConfig config, const Trained& trained) {
  if (!settings.data.empty()) config.objective.task_data = settings.data;
  const auto tasks = std::make_shared<TaskSet>(OpenTasks(config));
  return {MakeHeldOutTasks(config, tasks, trained.tokenizer), tasks->description, "answer"};
}

int Eval(const EvalSettings& settings, RankGroup* ranks) {
  const Trained trained = OpenModel(settings.chosen, {.which = WhichCheckpoint::kDefault});
  TakePrecision(settings.precision, *trained.model);
  TrainingConfig config = trained.config;
  if (trained.imported != nullptr) CheckPublished(settings, trained);
  if (settings.batch) {
    config.optimization.batch = *settings.batch;
    config.optimization.shards = 1;
  }
  CROSSTALK_CHECK(settings.text_field.empty() || !settings.data.empty(), "--text-field needs --data beside it");
  if (!settings.text_field.empty()) config.data.text_field = settings.text_field;
  if (settings.eval_batches) config.run.eval_batches = *settings.eval_batches;
  const ResolvedConfig resolved(config);
  const Measured measured = settings.length || settings.stride      ? OpenWindows(settings, *resolved, trained)
                            : ObjectiveOf(*resolved).learns_tasks() ? OpenTaskRows(settings, *resolved, trained)
                                                                    : OpenText(settings, resolved, trained);
  Progress progress;
  const auto show = [&](int64_t done, int64_t total) { progress.Count(measured.part, done, total); };
  RunEvaluation evaluation;
  evaluation.step = trained.step;
  const EvaluationBatches* batches = measured.held_out->batches();
  evaluation.result = ranks != nullptr && batches != nullptr
                          ? EvaluateOnRanks(*ranks, resolved, *trained.tokenizer, *trained.model, *batches,
                                            *measured.text, AbsolutePath("data", settings.data), measured.extent)
                          : measured.held_out->Evaluate(*trained.model, {.progress = show});
  evaluation.baselines = measured.held_out->FindBaselines({});
  if (settings.json) {
    PrintResult(EvaluationMembers(evaluation).Set("checkpoint", trained.checkpoint).Set("data", measured.data));
    return 0;
  }
  PrintResult(StrCat(EvaluationText(evaluation), "\n", trained.checkpoint, " (step ", trained.step, ")\n",
                     measured.data, "\n"));
  return 0;
}

}  // namespace

Command EvalCommand() {
  return {"eval", "held-out measures of a model, on its run's own held-out text or on yours",
          "Measures a model on held-out text as training does: ln(PPL) is the mean negative "
          "log-likelihood, in nats, of a target token. Beside an accuracy stands that of the best constant guess: the "
          "share of its most frequent target. The examples are the same for every run with the same lengths and data.\n"
          "With --length or --stride a language model scores each token of a text once, with at least --length less "
          "--stride tokens before it, except at the text's start. It says nats and perplexity a token, a byte and a "
          "word of the text, words being parted by white space.",
          [](OptionTable& options) -> std::function<int()> {
            options.NameField("task_data", "--data");
            options.AddFields(EvalFields());
            AddRankOptions(options);
            options.AddThreads();
            return [&options] {
              return WithRanks(options, [&](RankGroup* ranks) { return Eval(options.Over(EvalFields()), ranks); });
            };
          }};
}

}  // namespace crosstalk
