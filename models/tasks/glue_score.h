// Scores of GLUE's tasks, and of every other that is scored by its labels alone. Shares of 1, not per cent, under the
// names of Hugging Face's evaluation of GLUE and SuperGLUE.
#pragma once

#include <vector>

#include "crosstalk/models/tasks/task.h"

namespace crosstalk {

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
