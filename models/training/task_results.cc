#include "crosstalk/models/training/task_results.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "crosstalk/models/registry.h"
#include "crosstalk/models/tasks/measures.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/objectives/task_head.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {
namespace {

Json OrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json MeasuresJson(const TaskType& type, const std::vector<Metric>& measures) {
  Json json = Json::MakeObject({{"score", OrNull(MainScore(type, measures))}});
  for (const Metric& one : measures) json.Set(one.name, OrNull(one.value));
  return json;
}

// Those elements of `all`, which are of the rows, whose rows have answers.
template <typename T>
std::vector<T> OfLabelled(const std::vector<TaskRow>& rows, const std::vector<T>& all) {
  std::vector<T> labelled;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].labelled) labelled.push_back(all[i]);
  }
  return labelled;
}

// The rows that have answers: most often all, or none.
class LabelledRows {
 public:
  explicit LabelledRows(const std::vector<TaskRow>& rows)
      : rows_(rows),
        all_(std::all_of(rows.begin(), rows.end(), [](const TaskRow& row) { return row.labelled; })),
        some_(all_ ? std::vector<TaskRow>() : OfLabelled(rows, rows)) {}

  const std::vector<TaskRow>& rows() const { return all_ ? rows_ : some_; }
  bool empty() const { return rows().empty(); }

 private:
  const std::vector<TaskRow>& rows_;
  bool all_;
  std::vector<TaskRow> some_;
};

}  // namespace

TaskResult AnswerTask(const TrainingConfig& config, const Model& model, const Tokenizer& tokenizer,
                      const TaskType& type, TaskSplit split, const std::vector<TaskRow>& rows, const Observer& observer,
                      std::optional<double> no_answer_threshold) {
  const ContextScope no_grad = NoGrad();
  TaskResult result;
  result.type = &type;
  result.split = split;
  result.predictions = ObjectiveOf(config).answer(config.objective, model, tokenizer, type, rows, observer);
  const LabelledRows labelled(rows);
  const bool says = std::all_of(result.predictions.begin(), result.predictions.end(),
                                [](const TaskPrediction& one) { return one.no_answer.has_value(); });
  if (type.may_lack_answers && says) {
    if (!no_answer_threshold && !labelled.empty()) {
      no_answer_threshold = BestNoAnswerThreshold(type, labelled.rows(), OfLabelled(rows, result.predictions));
    }
    result.no_answer_threshold = no_answer_threshold.value_or(kEvenNoAnswer);
    EmptyAnswersAbove(*result.no_answer_threshold, &result.predictions);
  }
  if (!labelled.empty()) {
    result.measures = type.score(type, labelled.rows(), OfLabelled(rows, result.predictions));
  }
  return result;
}

std::vector<Metric> ConstantGuessOf(const TaskType& type, const std::vector<TaskRow>& rows) {
  const LabelledRows labelled(rows);
  if (labelled.empty()) return {};
  return BestConstantAnswer(type, labelled.rows()).measures;
}

double MeanScore(const std::vector<TaskResult>& results) {
  double sum = 0, count = 0;
  for (const TaskResult& result : results) {
    if (result.measures.empty()) continue;
    const double score = MainScore(*result.type, result.measures);
    sum += std::isfinite(score) ? score : 0;
    ++count;
  }
  return sum / count;
}

Json ScoresJson(const std::vector<TaskResult>& results) {
  Json tasks = Json::MakeObject();
  for (const TaskResult& result : results) {
    if (result.measures.empty()) continue;
    Json task = MeasuresJson(*result.type, result.measures);
    if (result.no_answer_threshold) task.Set("no_answer_threshold", *result.no_answer_threshold);
    tasks.Set(result.type->name, task.Set("constant_guess", MeasuresJson(*result.type, result.constant_guess)));
  }
  return Json::MakeObject({{"score", OrNull(MeanScore(results))}, {"tasks", tasks}});
}

std::vector<std::string> WriteAnswers(const TaskResult& result, const std::vector<TaskRow>& rows,
                                      const std::string& folder) {
  const std::string inner = StrCat(folder, "/", Name(result.split));
  CreateDirectories(inner);
  std::vector<std::string> paths;
  for (const TaskFile& file : result.type->write(*result.type, rows, result.predictions, result.split)) {
    paths.push_back(StrCat(inner, "/", file.name));
    WriteFileAtomically(paths.back(), file.contents);
  }
  return paths;
}

void WriteTaskResults(const std::string& run_folder, int64_t steps, const TaskSet& tasks, const Observer& observer) {
  const Trained best = OpenRun(run_folder, {.which = WhichCheckpoint::kBest});
  std::vector<TaskResult> results;
  for (const TaskData& task : tasks.tasks) {
    std::optional<double> threshold;  // of the held-out rows, for the test rows too
    for (const auto& [split, rows] : {std::pair(TaskSplit::kDev, task.dev), std::pair(TaskSplit::kTest, task.test)}) {
      if (rows == nullptr) continue;
      TaskResult result =
          AnswerTask(best.config, *best.model, *best.tokenizer, *task.type, split, *rows, observer, threshold);
      threshold = result.no_answer_threshold;
      WriteAnswers(result, *rows, run_folder + "/predictions");
      if (split == TaskSplit::kTest) continue;
      result.constant_guess = ConstantGuessOf(*task.type, *rows);
      results.push_back(std::move(result));
    }
  }
  Json scores = Json::MakeObject({{"step", best.step}, {"steps", steps}});
  const Json measured = ScoresJson(results);
  scores.Set("score", measured.At("score")).Set("tasks", measured.At("tasks"));
  WriteFileAtomically(RunFolder(run_folder).ScoresFile(), scores.DumpPretty());
}

bool HasTaskResults(const std::string& run_folder, int64_t steps) {
  const std::string path = RunFolder(run_folder).ScoresFile();
  if (KindOf(path) == PathKind::kNothing) return false;
  const Json scores = ReadJsonFile(path);
  const Json* of_steps = scores.Find("steps");
  return of_steps != nullptr && *of_steps == Json(steps);
}

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
  const Trained origin = LoadOrigin(recorded.checkpoint, TrainedParts::kModel);
  if (origin.weights_checksum != recorded.weights) return lost("where other weights stand by now");
  return {LoadModelOf(origin, model, seed).model, StrCat("weights of ", Excerpt(recorded.checkpoint, 400))};
}

InitialModel MakeInitialModel(const RunFolder& folder, const Trained& trained) {
  const ResolvedConfig config(trained.config);
  const CheckpointConfig checkpoint = ReadCheckpointConfig(VerifyCheckpoint(trained.checkpoint));
  if (checkpoint.fingerprint.empty()) return {nullptr, "the model is an imported one, which began elsewhere"};
  if (!checkpoint.origin) {
    const Vocabulary vocabulary = VocabularyOf(*config, trained.tokenizer.get());
    const ModelConfig model = ConfigureModel(*config, vocabulary);
    // A damaged file may ask for any amount of memory; the model that has been loaded is as large as its file.
    if (model.ToJson() != trained.model->config().ToJson())
      return {nullptr, "its configuration is not that of its model"};
    return {MakeModel(model, config->optimization.seed), StrCat("initial values, seed ", config->optimization.seed)};
  }
  const std::string first = CheckpointStore(folder.CheckpointDirectory()).PathOf(0);
  if (KindOf(first) == PathKind::kDirectory) {
    return {OpenRun(first).model, StrCat("step 0, the weights of ", Excerpt(checkpoint.origin->checkpoint, 400))};
  }
  return FromOrigin(*checkpoint.origin, trained.model->config(), config->optimization.seed);
}

std::unique_ptr<HeldOut> OpenHeldOut(const Trained& trained, std::shared_ptr<const TextSource> text) {
  const ResolvedConfig config(trained.config);
  if (trained.tokenizer == nullptr) Fail(ErrorKind::kData, trained.checkpoint, ": has no tokenizer to read text with");
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

RunMixing MixingOfRun(const std::string& run_folder, const Trained& trained,
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
