// Rows, predictions and measures as the tests of scores write them.
#pragma once

#include <gtest/gtest.h>

#include "crosstalk/models/tasks/task.h"

namespace crosstalk {

inline TaskType MakeTask(const char* name, const char* benchmark, TaskForm form, std::vector<const char*> labels) {
  TaskType type = {};
  type.name = name;
  type.benchmark = benchmark;
  type.form = form;
  type.labels = std::move(labels);
  return type;
}

// Rows "0", "1", … of these labels.
inline std::vector<TaskRow> LabelledRows(const std::vector<int64_t>& labels) {
  std::vector<TaskRow> rows;
  for (const int64_t label : labels) {
    TaskRow row;
    row.source = "dev.tsv, line " + std::to_string(rows.size() + 1);
    row.id = std::to_string(rows.size());
    row.labelled = true;
    row.label = label;
    rows.push_back(row);
  }
  return rows;
}

// Their predictions, in reverse: scores take them in any order.
inline std::vector<TaskPrediction> Answers(const std::vector<std::string>& answers) {
  std::vector<TaskPrediction> predictions;
  for (size_t i = answers.size(); i-- > 0;) predictions.push_back({std::to_string(i), answers[i], {}});
  return predictions;
}

// Rows of spans "0", "1", … with their right answers.
inline std::vector<TaskRow> AnsweredRows(const std::vector<std::vector<std::string>>& answers) {
  std::vector<TaskRow> rows = LabelledRows(std::vector<int64_t>(answers.size()));
  for (size_t i = 0; i < rows.size(); ++i) {
    for (const std::string& answer : answers[i]) rows[i].answers.push_back({answer, {}});
  }
  return rows;
}

inline std::string Names(const std::vector<Metric>& measures) {
  std::string names;
  for (const Metric& measure : measures) names += (names.empty() ? "" : " ") + measure.name;
  return names;
}

// All measures: their names, and their values in that order.
inline void ExpectMeasures(const std::vector<Metric>& measures, const std::string& names,
                           const std::vector<double>& values) {
  EXPECT_EQ(Names(measures), names);
  ASSERT_EQ(measures.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_DOUBLE_EQ(measures[i].value, values[i]) << measures[i].name;
}

inline double ValueOf(const std::vector<Metric>& measures, const std::string& name) {
  for (const Metric& measure : measures) {
    if (measure.name == name) return measure.value;
  }
  throw std::out_of_range(name);
}

}  // namespace crosstalk
