// Tasks: what a model is finetuned on, asked and scored by, each in its publishers' formats. A task is a file of this
// folder, or a row in its benchmark's, and one line of TaskTypes().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/models/metrics.h"
#include "crosstalk/runtime/enum_names.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// The kind of an answer.
enum class TaskForm {
  kClassification,  // one of the task's labels
  kRegression,      // a number
  kMultipleChoice,  // one of the row's choices
  kSpan,            // a part of the row's second text, or, where the task has them, that there is no answer
};

enum class TaskSplit { kTrain, kDev, kTest };
template <>
struct EnumNames<TaskSplit> {
  static constexpr EnumName<TaskSplit> kTable[] = {
      {TaskSplit::kTrain, "train"}, {TaskSplit::kDev, "dev"}, {TaskSplit::kTest, "test"}};
};

// A right answer of a span task.
struct TaskAnswer {
  std::string text;
  std::optional<int64_t> begin;  // byte of the row's second text; none where it does not stand there
};

// One question to a model, which has one prediction.
struct TaskRow {
  std::string source;  // "train.tsv, line 17": for messages
  std::string id;      // as a file of predictions names it
  std::string group;   // rows that a score takes together (a question of MultiRC, "middle" of RACE); empty: none

  // An encoder's inputs. A span is asked for by `first`, the question, and stands in `second`. Each choice is read
  // after the same `first`, a passage that is long and stands here once.
  std::string first;
  std::optional<std::string> second;
  struct Choice {
    std::string second;  // instead of the row's; empty: none
    std::string answer;  // what a prediction of it is: "1", "C", "United Nations"
  };
  std::vector<Choice> choices;  // of a multiple choice

  // A text-to-text model's input, and the correct texts; the first one is trained on.
  std::string input;
  std::vector<std::string> targets;

  // The correct answer; empty in a test set.
  bool labelled = false;
  int64_t label = 0;                // of the task's labels, or of the choices
  double number = 0;                // of a regression
  std::vector<TaskAnswer> answers;  // of a span; of ReCoRD the entities; none: there is no answer
};

// A model's answer to the row of that id. `answer` is as the official files have it: a label's name, a number, a
// text; for a text-to-text model's answer that is no label, that text. Of a span, empty: no answer.
struct TaskPrediction {
  std::string id;
  std::string answer;
  std::optional<double> no_answer;  // SQuAD 2.0: how sure the model is that there is none; larger is surer
};

// A file of a run's predictions/.
struct TaskFile {
  std::string name;  // "predictions.json", "MRPC.tsv"
  std::string contents;
};

// The files of a benchmark, which its tasks share.
struct TaskType;
struct TaskFormat {
  // Error(kData) that names file and line for what is not of the format; nothing is left out silently.
  std::vector<TaskRow> (*read)(const TaskType& type, const std::string& path, TaskSplit split);
  // A text-to-text model's words as an answer; the words themselves where they mean none.
  std::string (*answer_of_text)(const TaskType& type, const TaskRow& row, const std::string& text);
  // The official form of predictions, in the order of the rows, each of which has one.
  std::vector<TaskFile> (*write)(const TaskType& type, const std::vector<TaskRow>& rows,
                                 const std::vector<TaskPrediction>& predictions, TaskSplit split);
  // Reads that form. Error(kData) for an id that stands twice or is no row's; what is missing is for `score` to treat,
  // and so are SQuAD's predictions of other questions, which its scripts leave out.
  std::vector<TaskPrediction> (*read_predictions)(const TaskType& type, const std::string& path,
                                                  const std::vector<TaskRow>& rows);
};

struct TaskType : TaskFormat {
  const char* name;       // "mnli-m"
  const char* benchmark;  // "glue", "superglue", "squad", "race"
  TaskForm form;
  std::vector<const char*> labels;  // of a classification, as its files name them: the place is the class
  // Where a folder of tasks has them: of each list the first that is there, as a path below it.
  std::vector<const char*> train, dev, test;

  // The measures under the names that the official script prints. Predictions in any order. Error(kData) for a row
  // without one where the official script has it so; it scores zero where that has it so.
  std::vector<Metric> (*score)(const TaskType& type, const std::vector<TaskRow>& rows,
                               const std::vector<TaskPrediction>& predictions);
  // The measures whose mean is the task's score: {"accuracy", "f1"}.
  std::vector<const char*> main;
  bool may_lack_answers = false;  // a span: rows without an answer, which are told by a threshold
  double best = 1;                // what they are at best: 100 where the script prints per cent
};

const std::vector<TaskType>& TaskTypes();
std::vector<std::string> TaskNames();
// Error(kUsage) of the field "task" that lists the names, for any other.
const TaskType& FindTask(std::string_view name);

// The file of `split` in a folder of tasks or in the task's own folder; none if there is none.
std::optional<std::string> FindTaskFile(const TaskType& type, const std::string& folder, TaskSplit split);

// The mean of the measures that the task names as its own, as a share of what they are at best.
double MainScore(const TaskType& type, const std::vector<Metric>& measures);

}  // namespace crosstalk
#pragma GCC visibility pop
