// What the tests of tasks' files share.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/tasks/task.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {

// Writes DIRECTORY/NAME; its path.
inline std::string WriteTaskFile(const std::string& directory, const std::string& name, std::string_view bytes) {
  return PutFile(directory + "/" + name, bytes);
}

inline std::vector<TaskRow> ReadTask(const char* task, const std::string& path, TaskSplit split) {
  const TaskType& type = FindTask(task);
  return type.read(type, path, split);
}

// All that the rows say, a line each: id and group, the encoder's texts and choices, the text-to-text input and
// targets, the places of the answers, and the label or number; "?" if there is none.
inline std::string Shown(const TaskType& type, const std::vector<TaskRow>& rows) {
  std::string text;
  const auto add = [&](const std::string& part) { text += part + " | "; };
  for (const TaskRow& row : rows) {
    add(row.group.empty() ? row.id : row.id + " of " + row.group);
    add(row.first);
    if (row.second) add(*row.second);
    for (const TaskRow::Choice& choice : row.choices) add(choice.answer + ") " + choice.second);
    add(row.input);
    for (const std::string& target : row.targets) add("= " + target);
    for (const TaskAnswer& answer : row.answers) add(StrCat(answer.text, " at ", answer.begin.value_or(-1)));
    const auto label = static_cast<double>(row.label);
    text += !row.labelled ? "?\n" : StrCat(type.form == TaskForm::kRegression ? row.number : label, "\n");
  }
  return text;
}

// A task's file, and its rows as Shown has them.
struct TaskFileCase {
  const char* task;
  TaskSplit split;
  std::string bytes, rows;
};

// Files of some bytes, read as a task's.
class TaskFileTest : public ::testing::Test {
 protected:
  using Bytes = std::vector<testing::Refusal<std::string>>;
  static constexpr TaskSplit kTrain = TaskSplit::kTrain, kDev = TaskSplit::kDev, kTest = TaskSplit::kTest;

  explicit TaskFileTest(const char* name) : name_(name) {}

  std::vector<TaskRow> Read(const char* task, TaskSplit split, std::string_view bytes) {
    return ReadTask(task, WriteTaskFile(directory_.path(), name_, bytes), split);
  }
  std::vector<TaskPrediction> ReadPredictions(const char* task, std::string_view bytes,
                                              const std::vector<TaskRow>& rows) {
    const TaskType& type = FindTask(task);
    return type.read_predictions(type, WriteTaskFile(directory_ / "predictions", name_, bytes), rows);
  }

  void ExpectRows(const std::vector<TaskFileCase>& cases) {
    for (const auto& [task, split, bytes, rows] : cases) {
      EXPECT_EQ(Shown(FindTask(task), Read(task, split, bytes)), rows) << bytes;
    }
  }
  void ExpectRefused(const char* task, TaskSplit split, const Bytes& cases) {
    testing::ExpectRefused(
        cases, [&](const std::string& bytes) { Read(task, split, bytes); }, ErrorKind::kData);
  }
  void ExpectPredictionsRefused(const char* task, const std::vector<TaskRow>& rows, const Bytes& cases) {
    testing::ExpectRefused(
        cases, [&](const std::string& bytes) { ReadPredictions(task, bytes, rows); }, ErrorKind::kData);
  }

  TempDir directory_;

 private:
  const char* name_;  // of the file
};

// The task's rows of real data in a folder of CROSSTALK_DATA; nothing where it is not set.
inline std::optional<std::string> RealTasks(const std::string& folder) {
  const char* data = std::getenv("CROSSTALK_DATA");
  if (data == nullptr) return std::nullopt;
  return std::string(data) + "/" + folder;
}

// Labels in the middle between right and wrong: the right ones, except every third row.
inline std::vector<TaskPrediction> SomePredictions(const TaskType& type, const std::vector<TaskRow>& rows) {
  std::vector<TaskPrediction> predictions;
  for (size_t i = 0; i < rows.size(); ++i) {
    TaskPrediction prediction{.id = rows[i].id, .answer = "", .no_answer = std::nullopt};
    if (!type.labels.empty()) {
      prediction.answer = type.labels[i % type.labels.size()];
    } else if (!rows[i].choices.empty()) {
      prediction.answer = rows[i].choices[i % rows[i].choices.size()].answer;
    } else {
      prediction.answer = std::to_string(i % 5) + ".25";
    }
    predictions.push_back(prediction);
  }
  return predictions;
}

// What is written is read again.
inline void ExpectRoundTrip(const TaskType& type, const std::vector<TaskRow>& rows,
                            const std::vector<TaskPrediction>& predictions, const std::string& directory) {
  for (const TaskFile& file : type.write(type, rows, predictions, TaskSplit::kDev)) {
    WriteTaskFile(directory, file.name, file.contents);
  }
  for (const TaskFile& file : type.write(type, rows, predictions, TaskSplit::kDev)) {
    if (file.name.find("na_prob") != std::string::npos) continue;
    const std::vector<TaskPrediction> read = type.read_predictions(type, directory + "/" + file.name, rows);
    ASSERT_EQ(read.size(), predictions.size()) << file.name;
    for (size_t i = 0; i < read.size(); ++i) {
      ASSERT_EQ(read[i].id, predictions[i].id) << file.name;
      ASSERT_EQ(read[i].answer, predictions[i].answer) << file.name << ", id " << read[i].id;
      ASSERT_EQ(read[i].no_answer, predictions[i].no_answer) << file.name << ", id " << read[i].id;
    }
  }
}

// An original file: so many rows, labelled but in a test set. A text-to-text model that wrote a row's target would have
// answered its label, and predictions are read as they are written.
inline void ExpectWholeFile(const TaskType& type, const std::string& path, TaskSplit split, size_t count,
                            const std::string& directory) {
  SCOPED_TRACE(path);
  const std::vector<TaskRow> rows = type.read(type, path, split);
  EXPECT_EQ(rows.size(), count);
  for (const TaskRow& row : rows) {
    ASSERT_TRUE(row.labelled || split == TaskSplit::kTest) << row.id;
    if (!row.labelled || row.targets.empty() || (type.labels.empty() && row.choices.empty())) continue;
    const auto label = static_cast<size_t>(row.label);
    ASSERT_EQ(type.answer_of_text(type, row, row.targets[0]),
              row.choices.empty() ? type.labels[label] : row.choices[label].answer)
        << row.id;
  }
  if (split != TaskSplit::kTrain) ExpectRoundTrip(type, rows, SomePredictions(type, rows), directory);
}

}  // namespace crosstalk
