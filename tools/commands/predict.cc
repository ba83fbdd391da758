// `crosstalk predict`: a finetuned model's answers to a task, in its official files.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/tasks/scores.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/models/training/task_results.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/chosen_model.h"
#include "tools/cli/command.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"

namespace crosstalk {

namespace {

struct PredictSettings {
  ChosenModel chosen;
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
      FieldsOfPart(ChosenModelFields(), &S::chosen),
      {MakeOption("--task", &S::task, "NAMES", "Tasks; those of the finetuning by default."),
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

// Answers a task's file and writes the answers; their paths are added to `files`.
TaskResult AnswerFile(const PredictSettings& settings, const TrainedModel& trained, const TaskType& type,
                      const std::string& folder, Json* files) {
  const std::optional<std::string> path = FindTaskFile(type, folder, settings.split);
  CROSSTALK_CHECK(path.has_value(), "--task-data ", folder, ": has no ", Name(settings.split), " file of ", type.name);
  const std::vector<TaskRow> rows = type.read(type, *path, settings.split);
  Progress progress;
  const Observer observer = {
      .stop = [] { return StopSignals::Received() != 0; },
      .progress = [&](int64_t done, int64_t total) { progress.Count(StrCat(type.name, ": answer"), done, total); }};
  TaskResult result = AnswerTask(trained.config, *trained.model, *trained.tokenizer, type, settings.split, rows,
                                 observer, settings.no_answer_threshold);
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
  const TrainedModel trained = LoadChosenModel(settings.chosen);
  if (!ObjectiveOf(trained.config).learns_tasks()) {
    Fail(ErrorKind::kUsage, trained.checkpoint, ": was not trained on tasks; finetune it first");
  }
  const std::string names = settings.task.empty() ? trained.config.objective.tasks : Join(settings.task, ",");
  const std::string folder = settings.task_data.empty() ? trained.config.objective.task_data : settings.task_data;
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
      results.push_back(AnswerFile(settings, trained, *type, folder, &files));
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
          "default, and writes the answers in the official format to --out/SPLIT. `crosstalk score` scores them.",
          OptionsOf(PredictFields, Predict, Computes::kYes)};
}

}  // namespace crosstalk
