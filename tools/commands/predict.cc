// `crosstalk predict`: a finetuned model's answers to a task, in its official files.
#include <strings.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/interop/import.h"
#include "crosstalk/models/tasks/scores.h"
#include "crosstalk/models/training/finetuning.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/models/training/task_results.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/command.h"
#include "tools/cli/open_model.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"

namespace crosstalk {

namespace {

struct PredictSettings {
  ModelToOpen chosen;
  std::optional<Precision> precision;
  std::vector<std::string> task;
  std::string task_data;
  TaskSplit split = TaskSplit::kDev;
  std::optional<double> no_answer_threshold;
  std::string out;
  bool json = false;
};

FieldTable<PredictSettings> PredictFields() {
  using S = PredictSettings;
  return Joined(
      FieldsOfPart(ModelToOpenFields(WhichCheckpoint::kDefault), &S::chosen),
      {PrecisionField(&S::precision),
       MakeOption("--task", &S::task, "NAMES", "Tasks; those of the finetuning by default."),
       MakeOption("--task-data", &S::task_data, "FOLDER", "Folder with their files; that of the finetuning by default.",
                  {.is_path = true}),
       MakeOption("--split", &S::split, "", "Which rows."),
       MakeOption(
           "--no-answer-threshold", &S::no_answer_threshold, "X",
           "SQuAD 2.0: threshold for no answer; by default the best one for rows with answers, and 0.5 for others."),
       MakeOption("--out", &S::out, "FOLDER", "Folder of the answers.", {.is_path = true}),
       MakeOption("--json", &S::json, "", "Files and measures as one JSON object on standard output.")});
}

bool MayLackAnswers(const TaskType* type) { return type->may_lack_answers; }

// Classes have places, and a published model may name them: it must not have one of the task's at another's place.
void CheckClasses(const Trained& trained, const TaskType& type) {
  const std::vector<std::string> labels(type.labels.begin(), type.labels.end()), classes = PublishedClasses(trained);
  const std::string task = StrCat("those of ", type.name, ", ", Join(labels, ", "));
  const std::string own = classes.empty() ? "" : StrCat(", ", Excerpt(Join(classes, ", "), 400), ",");
  bool same = classes.size() == labels.size();
  for (size_t i = 0; i < classes.size(); ++i) {
    for (size_t k = 0; k < labels.size(); ++k) {
      const bool equal = strcasecmp(classes[i].c_str(), labels[k].c_str()) == 0;
      CROSSTALK_CHECK(!equal || i == k, trained.checkpoint, ": its classes", own, " are not in the order of ", task);
      same = same && (equal || i != k);
    }
  }
  if (!same) PrintMessage(trained.checkpoint, ": its classes", own, " are taken to be ", task, ", in this order");
}

// A published model does not say what it was finetuned on: it answers the task that is named, as a finetuning on it
// would have it.
TrainingConfig ConfigOfPublished(const PredictSettings& settings, const Trained& trained) {
  CROSSTALK_CHECK(!settings.task.empty(), "--task is missing: ", trained.checkpoint,
                  " is a published model, which does not say what it was finetuned on");
  CROSSTALK_CHECK(!settings.task_data.empty(), "--task-data is missing: the folder with the tasks' files");
  FinetuningLength length;
  const TrainingConfig config = FinetuningConfig(trained, Join(settings.task, ","), &length);
  for (const TaskType* type : ParseTasks(config.objective.tasks)) {
    const bool by_class = type->form == TaskForm::kClassification && trained.model->heads().classes > 0;
    if (by_class) CheckClasses(trained, *type);
  }
  return config;
}

// Answers a task's file and writes the answers; their paths are added to `files`.
TaskResult AnswerFile(const PredictSettings& settings, const Trained& trained, const TrainingConfig& config,
                      const TaskType& type, const std::string& folder, Json* files) {
  const std::optional<std::string> path = FindTaskFile(type, folder, settings.split);
  CROSSTALK_CHECK(path.has_value(), "--task-data ", folder, ": has no ", Name(settings.split), " file of ", type.name);
  const std::vector<TaskRow> rows = type.read(type, *path, settings.split);
  Progress progress;
  const Observer observer = {
      .stop = [] { return StopSignals::Received() != 0; },
      .progress = [&](int64_t done, int64_t total) { progress.Count(StrCat(type.name, ": answer"), done, total); }};
  TaskResult result = AnswerTask(config, *trained.model, *trained.tokenizer, type, settings.split, rows, observer,
                                 settings.no_answer_threshold);
  CROSSTALK_CHECK(!settings.no_answer_threshold || !type.may_lack_answers || result.no_answer_threshold,
                  "--no-answer-threshold: ", trained.model->Describe(),
                  ", writes its answers, and does not say how sure it is that there is none");
  const std::string no_label = AnswersOfNoLabel(type, rows, result.predictions);
  if (!no_label.empty()) PrintMessage("warning: ", type.name, ": ", no_label);
  result.constant_guess = ConstantGuessOf(type, rows);
  for (const std::string& file : WriteAnswers(result, rows, settings.out)) {
    files->Append(file);
    PrintMessage("written: ", file);
  }
  return result;
}

int Predict(const PredictSettings& settings) {
  CROSSTALK_CHECK(!settings.out.empty(), "--out is missing: the folder that the predictions go to");
  const Trained trained = OpenModel(settings.chosen, {.which = WhichCheckpoint::kDefault});
  TakePrecision(settings.precision, *trained.model);
  const bool published = trained.imported != nullptr;
  const TrainingConfig config = published ? ConfigOfPublished(settings, trained) : trained.config;
  if (!ObjectiveOf(config).learns_tasks()) {
    Fail(ErrorKind::kUsage, trained.checkpoint, ": was not trained on tasks; finetune it first");
  }
  const std::string names = settings.task.empty() ? config.objective.tasks : Join(settings.task, ",");
  const std::string folder = settings.task_data.empty() ? config.objective.task_data : settings.task_data;
  const std::vector<const TaskType*> tasks = ParseTasks(names);
  CROSSTALK_CHECK(!settings.no_answer_threshold || std::any_of(tasks.begin(), tasks.end(), MayLackAnswers),
                  "--no-answer-threshold is of tasks whose questions may lack an answer, and not of ", names);
  const StopSignals signals;
  CreateOutFolder(settings.out);  // before what may take long
  PrintMessage("answers by ", trained.checkpoint, " (step ", trained.step, ")");
  Json files = Json::MakeArray();
  std::vector<TaskResult> results;
  try {
    for (const TaskType* type : tasks) {
      results.push_back(AnswerFile(settings, trained, config, *type, folder, &files));
    }
  } catch (const Interrupted&) {
    PrintMessage("interrupted; ", files.AsArray().size(), " files are written");
    return 128 + signals.Received();
  }
  if (settings.json) {
    PrintResult(ScoresJson(results).Set("files", files).Set("checkpoint", trained.checkpoint));
  }
  return 0;
}

}  // namespace

Command PredictCommand() {
  return {"predict", "answer a task with a finetuned model, in the task's official files",
          "Answers every row of a task's train, dev or test file with a checkpoint of a finetuned run, its best one by "
          "default, or with an imported or published model whose task --task names, and writes the answers in the "
          "official format to --out/SPLIT. `crosstalk score` scores them.",
          OptionsOf(PredictFields, Predict, Computes::kYes)};
}

}  // namespace crosstalk
