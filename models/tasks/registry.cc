#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "crosstalk/models/tasks/glue.h"
#include "crosstalk/models/tasks/race.h"
#include "crosstalk/models/tasks/squad.h"
#include "crosstalk/models/tasks/superglue.h"
#include "crosstalk/models/tasks/superglue_score.h"
#include "crosstalk/models/tasks/task.h"
#include "crosstalk/models/tasks/task_files.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/enum_names.h"

namespace crosstalk {

// Our own small task, made of the built-in stories (examples/stories_task.cc, its files in examples/stories): does the
// second sentence answer the question in the first? Half of them did in a story; the others answer one of another kind.

TaskType StoriesTask();

namespace {

const TsvTask& Stories() {
  static const TsvTask task = {
      .file = "stories",
      .prefix = "stories",
      .words = {"no", "yes"},
      .fields = {{"question", {"question"}}, {"answer", {"answer"}}},
      .forms = {{.columns = {"index", "question", "answer", "label"}, .label = "label", .id = "index"},
                {.columns = {"index", "question", "answer"}, .id = "index"}}};
  return task;
}

}  // namespace

TaskType StoriesTask() {
  return {.name = "stories",
          .benchmark = "stories",
          .form = TaskForm::kClassification,
          .labels = {"no", "yes"},
          .train = {"stories/train.tsv"},
          .dev = {"stories/dev.tsv"},
          .test = {"stories/test.tsv"},
          .read = [](const TaskType& type, const std::string& path,
                     TaskSplit split) { return ReadTsv(type, Stories(), path, split); },
          .answer_of_text = [](const TaskType& type, const TaskRow&,
                               const std::string& text) { return TsvAnswerOfText(type, Stories(), text); },
          .write = [](const TaskType&, const std::vector<TaskRow>& rows, const std::vector<TaskPrediction>& predictions,
                      TaskSplit) { return std::vector<TaskFile>{WriteTsvPredictions(Stories(), rows, predictions)}; },
          .read_predictions = [](const TaskType&, const std::string& path,
                                 const std::vector<TaskRow>& rows) { return ReadTsvPredictions(path, rows); },
          .score = ScoreAccuracy,
          .main = {"accuracy"}};
}

namespace {

// Where a task's files are: first under the names of its publishers' archives; then in Hugging
// Face's exports ("hf_export"), whose rows are the same or a part of them; last the 32 examples of FewGLUE, which serve
// as a set only where there is nothing else. GLUE's RTE comes before SuperGLUE's, whose rows are the same.
using Paths = std::vector<const char*>;

struct Files {
  Paths train, dev, test;
};

struct Scores {
  decltype(TaskType::score) score;
  std::vector<const char*> main;
};
const Scores kAccuracy = {ScoreAccuracy, {"accuracy"}};
const Scores kMatthews = {ScoreCola, {"matthews_correlation"}};
const Scores kAccuracyAndF1 = {ScoreAccuracyAndF1, {"accuracy", "f1"}};

TaskType Glue(const char* name, TaskForm form, Paths labels, Files files, Scores scores) {
  return {.name = name,
          .benchmark = "glue",
          .form = form,
          .labels = std::move(labels),
          .train = std::move(files.train),
          .dev = std::move(files.dev),
          .test = std::move(files.test),
          .read = ReadGlue,
          .answer_of_text = GlueAnswerOfText,
          .write = WriteGlue,
          .read_predictions = ReadGluePredictions,
          .score = scores.score,
          .main = std::move(scores.main)};
}

TaskType SuperGlue(const char* name, TaskForm form, Paths labels, Files files, Scores scores) {
  TaskType type = Glue(name, form, std::move(labels), std::move(files), std::move(scores));
  type.benchmark = "superglue";
  type.read = ReadSuperGlue;
  type.answer_of_text = SuperGlueAnswerOfText;
  type.write = WriteSuperGlue;
  type.read_predictions = ReadSuperGluePredictions;
  return type;
}

std::vector<TaskType> GlueTasks() {
  constexpr TaskForm kClassification = TaskForm::kClassification;
  const Paths relations = {"entailment", "neutral", "contradiction"}, entails = {"entailment", "not_entailment"};
  TaskType rte = SuperGlue("rte", kClassification, entails,
                           {{"RTE/train.tsv", "RTE/train.jsonl", "RTE/FewGLUE_32dev/train.jsonl"},
                            {"RTE/dev.tsv", "RTE/val.jsonl", "RTE/FewGLUE_32dev/dev32.jsonl"},
                            {"RTE/test.tsv", "RTE/test.jsonl"}},
                           kAccuracy);
  rte.benchmark = "glue";
  return {
      Glue("cola", kClassification, {"0", "1"}, {{"CoLA/train.tsv"}, {"CoLA/dev.tsv"}, {"CoLA/test.tsv"}}, kMatthews),
      Glue("sst-2", kClassification, {"0", "1"}, {{"SST-2/train.tsv"}, {"SST-2/dev.tsv"}, {"SST-2/test.tsv"}},
           kAccuracy),
      Glue("mrpc", kClassification, {"0", "1"}, {{"MRPC/train.tsv"}, {"MRPC/dev.tsv"}, {"MRPC/test.tsv"}},
           kAccuracyAndF1),
      Glue("qqp", kClassification, {"0", "1"}, {{"QQP/train.tsv"}, {"QQP/dev.tsv"}, {"QQP/test.tsv"}}, kAccuracyAndF1),
      Glue("sts-b", TaskForm::kRegression, {}, {{"STS-B/train.tsv"}, {"STS-B/dev.tsv"}, {"STS-B/test.tsv"}},
           {ScoreStsB, {"pearson", "spearmanr"}}),
      Glue("mnli-m", kClassification, relations,
           {{"MNLI/train.tsv"}, {"MNLI/dev_matched.tsv"}, {"MNLI/test_matched.tsv"}}, kAccuracy),
      Glue("mnli-mm", kClassification, relations,
           {{"MNLI/train.tsv"}, {"MNLI/dev_mismatched.tsv"}, {"MNLI/test_mismatched.tsv"}}, kAccuracy),
      Glue("qnli", kClassification, entails, {{"QNLI/train.tsv"}, {"QNLI/dev.tsv"}, {"QNLI/test.tsv"}}, kAccuracy),
      rte,
      Glue("wnli", kClassification, {"0", "1"}, {{"WNLI/train.tsv"}, {"WNLI/dev.tsv"}, {"WNLI/test.tsv"}}, kAccuracy),
      Glue("ax", kClassification, relations,
           {.test = {"diagnostic/diagnostic.tsv", "AX/diagnostic.tsv", "diagnostic/diagnostic-full.tsv"}}, kMatthews),
  };
}

std::vector<TaskType> SuperGlueTasks() {
  constexpr TaskForm kClassification = TaskForm::kClassification, kMultipleChoice = TaskForm::kMultipleChoice;
  const Paths entails = {"entailment", "not_entailment"}, truth = {"false", "true"};
  return {
      SuperGlue("boolq", kClassification, truth,
                {{"BoolQ/train.jsonl", "BoolQ/hf_export/boolq_train.jsonl", "BoolQ/FewGLUE_32dev/train.jsonl"},
                 {"BoolQ/val.jsonl", "BoolQ/FewGLUE_32dev/dev32.jsonl"},
                 {"BoolQ/test.jsonl"}},
                kAccuracy),
      SuperGlue("cb", kClassification, {"entailment", "contradiction", "neutral"},
                {{"CB/train.jsonl", "CB/hf_export/cb_train.jsonl", "CB/FewGLUE_32dev/train.jsonl"},
                 {"CB/val.jsonl", "CB/hf_export/cb_validation.jsonl", "CB/FewGLUE_32dev/dev32.jsonl"},
                 {"CB/test.jsonl", "CB/hf_export/cb_test.jsonl"}},
                {ScoreCb, {"accuracy", "f1"}}),
      SuperGlue("copa", kMultipleChoice, {},
                {{"COPA/train.jsonl", "COPA/hf_export/copa_train.jsonl", "COPA/FewGLUE_32dev/train.jsonl"},
                 {"COPA/val.jsonl", "COPA/hf_export/copa_validation.jsonl", "COPA/FewGLUE_32dev/dev32.jsonl"},
                 {"COPA/test.jsonl", "COPA/hf_export/copa_test.jsonl"}},
                kAccuracy),
      SuperGlue("multirc", kClassification, {"0", "1"},
                {{"MultiRC/train.jsonl", "MultiRC/FewGLUE_32dev/train.jsonl"},
                 {"MultiRC/val.jsonl", "MultiRC/FewGLUE_32dev/dev32.jsonl"},
                 {"MultiRC/test.jsonl"}},
                {ScoreMultiRc, {"f1_a", "exact_match"}}),
      SuperGlue("record", kMultipleChoice, {},
                {{"ReCoRD/train.jsonl", "ReCoRD/FewGLUE_32dev/train.jsonl"},
                 {"ReCoRD/val.jsonl", "ReCoRD/FewGLUE_32dev/dev32.jsonl"},
                 {"ReCoRD/test.jsonl"}},
                {ScoreRecord, {"f1", "exact_match"}}),
      SuperGlue("wic", kClassification, truth,
                {{"WiC/train.jsonl", "WiC/FewGLUE_32dev/train.jsonl"},
                 {"WiC/val.jsonl", "WiC/FewGLUE_32dev/dev32.jsonl"},
                 {"WiC/test.jsonl"}},
                kAccuracy),
      SuperGlue("wsc", kClassification, {"False", "True"},
                {{"WSC/train.jsonl", "WSC/FewGLUE_32dev/train.jsonl"},
                 {"WSC/val.jsonl", "WSC/FewGLUE_32dev/dev32.jsonl"},
                 {"WSC/test.jsonl"}},
                kAccuracy),
      SuperGlue("ax-b", kClassification, entails, {.test = {"AX-b/AX-b.jsonl", "RTE/diagnostics/diagnostic-full.tsv"}},
                kMatthews),
      SuperGlue("ax-g", kClassification, entails,
                {.test = {"AX-g/AX-g.jsonl", "RTE/diagnostics/winogender_filtered.jsonl"}}, {ScoreAxG, {"accuracy"}}),
  };
}

TaskType Squad(const char* name, Files files, decltype(TaskType::score) score) {
  return {.name = name,
          .benchmark = "squad",
          .form = TaskForm::kSpan,
          .labels = {},
          .train = std::move(files.train),
          .dev = std::move(files.dev),
          .test = std::move(files.test),
          .read = ReadSquad,
          .answer_of_text = SquadAnswerOfText,
          .write = WriteSquad,
          .read_predictions = ReadSquadPredictions,
          .score = score,
          .main = {"f1"},
          .best = 100};
}

TaskType Race() {
  return {.name = "race",
          .benchmark = "race",
          .form = TaskForm::kMultipleChoice,
          .labels = {},
          .train = {"RACE/train", "race/train"},
          .dev = {"RACE/dev", "race/dev"},
          .test = {"RACE/test", "race/test"},
          .read = ReadRace,
          .answer_of_text = RaceAnswerOfText,
          .write = WriteRace,
          .read_predictions = ReadRacePredictions,
          .score = ScoreRace,
          .main = {"accuracy"}};
}

std::vector<TaskType> MakeTaskTypes() {
  TaskType v2 = Squad("squad-v2",
                      {{"train-v2.0.json", "squad/train-v2.0.json", "squad_v2/train.jsonl"},
                       {"dev-v2.0.json", "squad/dev-v2.0.json", "squad_v2/validation.jsonl"},
                       {}},
                      ScoreSquadV2);
  v2.may_lack_answers = true;
  std::vector<TaskType> types = {
      Squad("squad",
            {{"train-v1.1.json", "squad/train-v1.1.json", "squad/train.jsonl"},
             {"dev-v1.1.json", "squad/dev-v1.1.json", "squad/validation.jsonl"},
             {}},
            ScoreSquad),
      v2,
  };
  types.back().may_lack_answers = true;
  for (TaskType& type : GlueTasks()) types.push_back(std::move(type));
  for (TaskType& type : SuperGlueTasks()) types.push_back(std::move(type));
  types.push_back(Race());
  types.push_back(StoriesTask());
  return types;
}

// Whether `folder` has the name that the path begins with: "…/glue/SST-2" that of "SST-2/train.tsv".
bool IsOwnFolder(const std::string& folder, const std::string& name) {
  std::error_code error;
  const std::filesystem::path full = std::filesystem::absolute(folder, error);
  return !error && BaseName(full.lexically_normal().string()) == name;
}

}  // namespace

const std::vector<TaskType>& TaskTypes() {
  static const std::vector<TaskType> types = MakeTaskTypes();
  return types;
}

std::vector<std::string> TaskNames() { return NamesIn(TaskTypes()); }

const TaskType& FindTask(std::string_view name) { return FindNamed("task", name, TaskTypes()); }

std::optional<std::string> FindTaskFile(const TaskType& type, const std::string& folder, TaskSplit split) {
  const std::vector<const char*>& candidates = split == TaskSplit::kTrain ? type.train
                                               : split == TaskSplit::kDev ? type.dev
                                                                          : type.test;
  for (const std::string candidate : candidates) {
    std::vector<std::string> paths = {folder + "/" + candidate};
    const size_t slash = candidate.find('/');
    if (slash != std::string::npos && IsOwnFolder(folder, candidate.substr(0, slash))) {
      paths.push_back(folder + candidate.substr(slash));
    }
    for (const std::string& path : paths) {
      for (const std::string& file : {path, path + ".gz"}) {
        if (KindOf(file) != PathKind::kNothing) return file;
      }
    }
  }
  return std::nullopt;
}

double MainScore(const TaskType& type, const std::vector<Metric>& measures) {
  double sum = 0;
  for (const std::string_view name : type.main) {
    const auto measure =
        std::find_if(measures.begin(), measures.end(), [&](const Metric& metric) { return metric.name == name; });
    if (measure == measures.end()) {
      throw std::logic_error(StrCat("the task ", type.name, " has no measure ", name));
    }
    sum += measure->value;
  }
  return sum / static_cast<double>(type.main.size()) / type.best;
}

}  // namespace crosstalk
