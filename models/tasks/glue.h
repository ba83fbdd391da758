// GLUE (Wang et al., 2018): CoLA, SST-2, MRPC, QQP, STS-B, MNLI (matched and mismatched), QNLI, RTE, WNLI and the
// diagnostic AX, in the files that its site distributes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/tasks/task.h"

namespace crosstalk {

// Classification and regression of one or two texts in files of tab-separated columns, as GLUE distributes them. Quotes
// are literal text; a row is a line. One TsvTask says all of a task; glue.cc and stories.cc have theirs.

// A form that a file can have. Which one it is, its header says.
struct TsvForm {
  std::vector<const char*> columns;
  const char* label = nullptr;  // the column of the labels; null: the file has none
  const char* id = nullptr;     // the column of the ids; null: a row's id is its place, from 0
  bool header = true;           // false: the first line is a row already
};

struct TsvTask {
  const char* file;                // of predictions, without ".tsv": "SST-2"
  const char* prefix;              // of the text-to-text form: "sst2"
  std::vector<const char*> words;  // of the labels, text to text; empty: a regression
  struct Field {
    const char* name;                  // text to text: "premise"
    std::vector<const char*> columns;  // the first that the form has: {"sentence1", "Premise"}
  };
  std::vector<Field> fields;  // an encoder reads the first, and then the second if there are two
  std::vector<TsvForm> forms;
  double low = 0, high = 0;  // of a regression
};

// As the functions of TaskType that have these names.
std::vector<TaskRow> ReadTsv(const TaskType& type, const TsvTask& task, const std::string& path, TaskSplit split);
std::string TsvAnswerOfText(const TaskType& type, const TsvTask& task, const std::string& text);
// "index\tprediction": GLUE's form for the test sets that its site scores; here for dev sets too.
TaskFile WriteTsvPredictions(const TsvTask& task, const std::vector<TaskRow>& rows,
                             const std::vector<TaskPrediction>& predictions);
std::vector<TaskPrediction> ReadTsvPredictions(const std::string& path, const std::vector<TaskRow>& rows);

// The functions of their lines in registry.cc.
std::vector<TaskRow> ReadGlue(const TaskType& type, const std::string& path, TaskSplit split);
std::string GlueAnswerOfText(const TaskType& type, const TaskRow& row, const std::string& text);
std::vector<TaskFile> WriteGlue(const TaskType& type, const std::vector<TaskRow>& rows,
                                const std::vector<TaskPrediction>& predictions, TaskSplit split);
std::vector<TaskPrediction> ReadGluePredictions(const TaskType& type, const std::string& path,
                                                const std::vector<TaskRow>& rows);

// Scores of GLUE's tasks, and of every other that is scored by its labels alone. Shares of 1, not per cent, under the
// names of Hugging Face's evaluation of GLUE and SuperGLUE.

// "accuracy"
std::vector<Metric> ScoreAccuracy(const TaskType& type, const std::vector<TaskRow>& rows,
                                  const std::vector<TaskPrediction>& predictions);

// "matthews_correlation": of the diagnostics too
std::vector<Metric> ScoreCola(const TaskType& type, const std::vector<TaskRow>& rows,
                              const std::vector<TaskPrediction>& predictions);

// "accuracy", "f1" of class 1: MRPC and QQP
std::vector<Metric> ScoreAccuracyAndF1(const TaskType& type, const std::vector<TaskRow>& rows,
                                       const std::vector<TaskPrediction>& predictions);

// "pearson", "spearmanr". An answer that is not a number is -1, as T5 has it.
std::vector<Metric> ScoreStsB(const TaskType& type, const std::vector<TaskRow>& rows,
                              const std::vector<TaskPrediction>& predictions);

}  // namespace crosstalk
