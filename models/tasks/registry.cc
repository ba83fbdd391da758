#include <algorithm>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "crosstalk/models/tasks/benchmarks.h"
#include "crosstalk/models/tasks/measures.h"
#include "crosstalk/models/tasks/scores.h"
#include "crosstalk/models/tasks/task.h"
#include "crosstalk/models/tasks/task_files.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/enum_names.h"

namespace crosstalk {

namespace {

// Where a task's files are: first under the names of its publishers' archives; then in Hugging
// Face's exports ("hf_export"), whose rows are the same or a part of them; last the 32 examples of FewGLUE, which serve
// as a set only if there is nothing else. GLUE's RTE comes before SuperGLUE's, whose rows are the same.
using Paths = std::vector<const char*>;

struct Files {
  Paths train, dev, test;
};

struct Scores {
  TaskScore* score;
  std::vector<const char*> main;
  double best = 1;
};

// The scores that are measures of classes.
struct ClassMeasure {
  const char* name;
  double (*of)(std::span<const int64_t> targets, std::span<const int64_t> answers);
};
constexpr ClassMeasure kAccuracyMeasure = {"accuracy", Accuracy}, kMatthewsMeasure = {"matthews_correlation", Matthews},
                       kF1 = {"f1", BinaryF1};
// The mean over all classes, whether they occur or not.
constexpr ClassMeasure kMeanF1Of3 = {"f1", [](auto targets, auto answers) { return MacroF1(targets, answers, 3); }};

template <const ClassMeasure&... kMeasures>
std::vector<Metric> ScoreClasses(const TaskType& type, const std::vector<TaskRow>& rows,
                                 const std::vector<TaskPrediction>& predictions) {
  const ScoredClasses classes = ClassesOf(type, rows, predictions);
  return {{kMeasures.name, kMeasures.of(classes.targets, classes.answers)}...};
}
const Scores kAccuracy = {ScoreClasses<kAccuracyMeasure>, {"accuracy"}};
const Scores kMatthews = {ScoreClasses<kMatthewsMeasure>, {"matthews_correlation"}};
const Scores kAccuracyAndF1 = {ScoreClasses<kAccuracyMeasure, kF1>, {"accuracy", "f1"}};

// A line; its benchmark and format are those of the lines that it stands among.
TaskType Task(const char* name, TaskForm form, const Paths& labels, const Files& files, const Scores& scores,
              bool may_lack_answers = false) {
  const auto& [train, dev, test] = files;
  return {{}, name, "", form, labels, train, dev, test, scores.score, scores.main, may_lack_answers, scores.best};
}

std::vector<TaskType> MakeTaskTypes() {
  std::vector<TaskType> types;
  const auto add = [&](const char* benchmark, const TaskFormat& format, std::vector<TaskType> tasks) {
    for (TaskType& task : tasks) {
      static_cast<TaskFormat&>(task) = format;
      task.benchmark = benchmark;
      types.push_back(std::move(task));
    }
  };
  constexpr TaskForm kClassification = TaskForm::kClassification, kMultipleChoice = TaskForm::kMultipleChoice;
  const Paths relations = {"entailment", "neutral", "contradiction"}, entails = {"entailment", "not_entailment"};
  const Paths truth = {"false", "true"};
  add("squad", kSquadFormat,
      {Task("squad", TaskForm::kSpan, {},
            {{"train-v1.1.json", "squad/train-v1.1.json", "squad/train.jsonl"},
             {"dev-v1.1.json", "squad/dev-v1.1.json", "squad/validation.jsonl"},
             {}},
            {ScoreSquad, {"f1"}, 100}),
       Task("squad-v2", TaskForm::kSpan, {},
            {{"train-v2.0.json", "squad/train-v2.0.json", "squad_v2/train.jsonl"},
             {"dev-v2.0.json", "squad/dev-v2.0.json", "squad_v2/validation.jsonl"},
             {}},
            {ScoreSquadV2, {"f1"}, 100}, true)});
  add("glue", kGlueFormat,
      {Task("cola", kClassification, {"0", "1"}, {{"CoLA/train.tsv"}, {"CoLA/dev.tsv"}, {"CoLA/test.tsv"}}, kMatthews),
       Task("sst-2", kClassification, {"0", "1"}, {{"SST-2/train.tsv"}, {"SST-2/dev.tsv"}, {"SST-2/test.tsv"}},
            kAccuracy),
       Task("mrpc", kClassification, {"0", "1"}, {{"MRPC/train.tsv"}, {"MRPC/dev.tsv"}, {"MRPC/test.tsv"}},
            kAccuracyAndF1),
       Task("qqp", kClassification, {"0", "1"}, {{"QQP/train.tsv"}, {"QQP/dev.tsv"}, {"QQP/test.tsv"}}, kAccuracyAndF1),
       Task("sts-b", TaskForm::kRegression, {}, {{"STS-B/train.tsv"}, {"STS-B/dev.tsv"}, {"STS-B/test.tsv"}},
            {ScoreStsB, {"pearson", "spearmanr"}}),
       Task("mnli-m", kClassification, relations,
            {{"MNLI/train.tsv"}, {"MNLI/dev_matched.tsv"}, {"MNLI/test_matched.tsv"}}, kAccuracy),
       Task("mnli-mm", kClassification, relations,
            {{"MNLI/train.tsv"}, {"MNLI/dev_mismatched.tsv"}, {"MNLI/test_mismatched.tsv"}}, kAccuracy),
       Task("qnli", kClassification, entails, {{"QNLI/train.tsv"}, {"QNLI/dev.tsv"}, {"QNLI/test.tsv"}}, kAccuracy)});
  add("glue", kSuperGlueFormat,
      {Task("rte", kClassification, entails,
            {{"RTE/train.tsv", "RTE/train.jsonl", "RTE/FewGLUE_32dev/train.jsonl"},
             {"RTE/dev.tsv", "RTE/val.jsonl", "RTE/FewGLUE_32dev/dev32.jsonl"},
             {"RTE/test.tsv", "RTE/test.jsonl"}},
            kAccuracy)});
  add("glue", kGlueFormat,
      {Task("wnli", kClassification, {"0", "1"}, {{"WNLI/train.tsv"}, {"WNLI/dev.tsv"}, {"WNLI/test.tsv"}}, kAccuracy),
       Task("ax", kClassification, relations,
            {.test = {"diagnostic/diagnostic.tsv", "AX/diagnostic.tsv", "diagnostic/diagnostic-full.tsv"}},
            kMatthews)});
  add("superglue", kSuperGlueFormat,
      {Task("boolq", kClassification, truth,
            {{"BoolQ/train.jsonl", "BoolQ/hf_export/boolq_train.jsonl", "BoolQ/FewGLUE_32dev/train.jsonl"},
             {"BoolQ/val.jsonl", "BoolQ/FewGLUE_32dev/dev32.jsonl"},
             {"BoolQ/test.jsonl"}},
            kAccuracy),
       Task("cb", kClassification, {"entailment", "contradiction", "neutral"},
            {{"CB/train.jsonl", "CB/hf_export/cb_train.jsonl", "CB/FewGLUE_32dev/train.jsonl"},
             {"CB/val.jsonl", "CB/hf_export/cb_validation.jsonl", "CB/FewGLUE_32dev/dev32.jsonl"},
             {"CB/test.jsonl", "CB/hf_export/cb_test.jsonl"}},
            {ScoreClasses<kAccuracyMeasure, kMeanF1Of3>, {"accuracy", "f1"}}),
       Task("copa", kMultipleChoice, {},
            {{"COPA/train.jsonl", "COPA/hf_export/copa_train.jsonl", "COPA/FewGLUE_32dev/train.jsonl"},
             {"COPA/val.jsonl", "COPA/hf_export/copa_validation.jsonl", "COPA/FewGLUE_32dev/dev32.jsonl"},
             {"COPA/test.jsonl", "COPA/hf_export/copa_test.jsonl"}},
            kAccuracy),
       Task("multirc", kClassification, {"0", "1"},
            {{"MultiRC/train.jsonl", "MultiRC/FewGLUE_32dev/train.jsonl"},
             {"MultiRC/val.jsonl", "MultiRC/FewGLUE_32dev/dev32.jsonl"},
             {"MultiRC/test.jsonl"}},
            {ScoreMultiRc, {"f1_a", "exact_match"}}),
       Task("record", kMultipleChoice, {},
            {{"ReCoRD/train.jsonl", "ReCoRD/FewGLUE_32dev/train.jsonl"},
             {"ReCoRD/val.jsonl", "ReCoRD/FewGLUE_32dev/dev32.jsonl"},
             {"ReCoRD/test.jsonl"}},
            {ScoreRecord, {"f1", "exact_match"}}),
       Task("wic", kClassification, truth,
            {{"WiC/train.jsonl", "WiC/FewGLUE_32dev/train.jsonl"},
             {"WiC/val.jsonl", "WiC/FewGLUE_32dev/dev32.jsonl"},
             {"WiC/test.jsonl"}},
            kAccuracy),
       Task("wsc", kClassification, {"False", "True"},
            {{"WSC/train.jsonl", "WSC/FewGLUE_32dev/train.jsonl"},
             {"WSC/val.jsonl", "WSC/FewGLUE_32dev/dev32.jsonl"},
             {"WSC/test.jsonl"}},
            kAccuracy),
       Task("ax-b", kClassification, entails, {.test = {"AX-b/AX-b.jsonl", "RTE/diagnostics/diagnostic-full.tsv"}},
            kMatthews),
       Task("ax-g", kClassification, entails,
            {.test = {"AX-g/AX-g.jsonl", "RTE/diagnostics/winogender_filtered.jsonl"}}, {ScoreAxG, {"accuracy"}})});
  add("race", kRaceFormat,
      {Task("race", kMultipleChoice, {},
            {{"RACE/train", "race/train"}, {"RACE/dev", "race/dev"}, {"RACE/test", "race/test"}},
            {ScoreRace, {"accuracy"}})});
  add("stories", kGlueFormat,
      {Task("stories", kClassification, {"no", "yes"},
            {{"stories/train.tsv"}, {"stories/dev.tsv"}, {"stories/test.tsv"}}, kAccuracy)});
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
