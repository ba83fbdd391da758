// Common to the tasks' scores: rows beside their predictions, and answers as classes and numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/tasks/task.h"

namespace crosstalk {

enum class Missing { kIsAnError, kScoresZero };

// Of each row its prediction, or null if that is missing. Error(kData) where there are no rows, a row is not labelled,
// an id is predicted twice, or one is missing and that is an error. Predictions of other ids are not looked at.
std::vector<const TaskPrediction*> PredictionsOf(const TaskType& type, const std::vector<TaskRow>& rows,
                                                 const std::vector<TaskPrediction>& predictions, Missing missing);

// Targets and answers of a classification or a multiple choice, in the order of the rows; an answer that is no label
// is kNoLabel. Error(kData) as of PredictionsOf; a missing prediction is an error.
struct ScoredClasses {
  std::vector<int64_t> targets, answers;
};
ScoredClasses ClassesOf(const TaskType& type, const std::vector<TaskRow>& rows,
                        const std::vector<TaskPrediction>& predictions);

// The number that a text is, as Python's float() reads it (white space, a sign, nan and inf too).
std::optional<double> NumberOfAnswer(const std::string& text);

// "3 of 4 answers are no labels (0, 1); the first is "1.0"; they count as wrong", or no numbers: of the rows that are
// scored by labels or numbers. Empty where all answers are such, and of a task whose answers are words.
std::string AnswersOfNoLabel(const TaskType& type, const std::vector<TaskRow>& rows,
                             const std::vector<TaskPrediction>& predictions);

}  // namespace crosstalk
