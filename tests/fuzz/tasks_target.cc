#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "crosstalk/models/tasks/task.h"
#include "crosstalk/runtime/text.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::fuzz {
namespace {

void RequireRow(const TaskType& type, const TaskRow& row, TaskSplit split) {
  Require(!row.source.empty() && !row.id.empty(), "a row without a source or an id");
  Require(row.labelled || split == TaskSplit::kTest, row.source, " is not labelled");
  for (const std::string* text : {&row.first, &row.input, &row.id}) {
    Require(FindInvalidUtf8(*text) == std::string_view::npos, row.source, " is not UTF-8");
  }
  if (type.form == TaskForm::kClassification || type.form == TaskForm::kMultipleChoice) {
    const auto classes = row.choices.empty() ? std::ssize(type.labels) : std::ssize(row.choices);
    Require(!row.labelled || (row.label >= 0 && row.label < classes), row.source, ": label ", row.label, " of ",
            classes);
  }
  if (type.form != TaskForm::kSpan) return;
  Require(row.second.has_value(), row.source, " has no passage");
  for (const TaskAnswer& answer : row.answers) {
    if (!answer.begin) continue;
    Require(*answer.begin >= 0 && row.second->substr(static_cast<size_t>(*answer.begin)).starts_with(answer.text),
            row.source, ": an answer that does not stand at its place");
  }
}

// What is written is read again, whatever a model says.
void RequireRoundTrip(const TaskType& type, const std::vector<TaskRow>& rows, const TempDir& directory) {
  std::vector<TaskPrediction> predictions;
  std::set<std::string> ids;
  for (const TaskRow& row : rows) {
    if (!ids.insert(row.id).second) return;  // of a training set, which nobody predicts
    const std::string words = row.targets.empty() ? "words" : row.targets[0];
    predictions.push_back({row.id, type.answer_of_text(type, row, words), std::nullopt});
  }
  for (const TaskFile& file : type.write(type, rows, predictions, TaskSplit::kDev)) {
    directory.Put(file.name, file.contents);
    const std::vector<TaskPrediction> read = type.read_predictions(type, directory / file.name, rows);
    Require(read.size() == predictions.size(), file.name, ": ", read.size(), " of ", predictions.size());
  }
}

}  // namespace

// "TASK SPLIT END" in the first line, as in "boolq dev jsonl"; then a file of that end, and after \x1C one of
// predictions. What is read holds what task.h says of a row.
void FuzzTasks(std::string_view input) {
  static const TempDir directory;
  const FirstLine head = SplitFirstLine(input);
  const std::vector<std::string> words = Split(head.line, ' ');
  if (words.size() != 3) return;
  const std::vector<std::string> names = TaskNames();
  if (std::find(names.begin(), names.end(), words[0]) == names.end()) return;
  const TaskType& type = FindTask(words[0]);
  const TaskSplit split = words[1] == "train" ? TaskSplit::kTrain
                          : words[1] == "dev" ? TaskSplit::kDev
                                              : TaskSplit::kTest;
  const std::string end = words[2] == "tsv" ? ".tsv" : words[2] == "jsonl" ? ".jsonl" : ".json";
  const size_t predictions_at = head.rest.find('\x1C');
  const std::string_view file = head.rest.substr(0, predictions_at);
  std::string path = directory / ("file" + end);
  if (words[0] == "race") {
    path = directory / "race";
    PutFile(path + "/high/1.txt", file);
  } else {
    PutFile(path, file);
  }
  std::vector<TaskRow> rows;
  if (!Accepts([&] { rows = type.read(type, path, split); })) return;
  Require(!rows.empty(), "no row, and no error");
  for (const TaskRow& row : rows) RequireRow(type, row, split);
  RequireRoundTrip(type, rows, directory);
  if (predictions_at == std::string_view::npos) return;
  const std::string predictions = directory / ("predictions" + end);
  PutFile(predictions, head.rest.substr(predictions_at + 1));
  const bool may_be_unknown = words[0].starts_with("squad");  // as the official script has it; `score` says which
  Accepts([&] {
    const std::vector<TaskPrediction> read = type.read_predictions(type, predictions, rows);
    std::set<std::string> known, ids;
    for (const TaskRow& row : rows) known.insert(row.id);
    for (const TaskPrediction& prediction : read) {
      Require(may_be_unknown || known.count(prediction.id) > 0, "an id that no row has");
      Require(ids.insert(prediction.id).second, "an id twice");
    }
  });
}

}  // namespace crosstalk::fuzz
