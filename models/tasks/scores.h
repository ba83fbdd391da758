// Predictions and scores: the rows that a file of predictions answers, such files, and averages over a benchmark.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/tasks/task.h"

namespace crosstalk {

// Common to the tasks' scores: rows beside their predictions, and answers as classes and numbers.

enum class Missing { kIsAnError, kScoresZero };

// The prediction of each row, or null if it is missing. Error(kData) if there are no rows, a row is not labelled,
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

// "exact_match" and "f1" of the words, against the answer that gives most, of `best` at best. A missing prediction
// scores zero. Error(kData), "has no answer" and `reason`, for a row without a right one.
std::vector<Metric> ScoreWords(const TaskType& type, const std::vector<TaskRow>& rows,
                               const std::vector<TaskPrediction>& predictions, double best, const char* reason);

// The number that a text is, as Python's float() reads it (white space, a sign, nan and inf too).
std::optional<double> NumberOfAnswer(const std::string& text);

// "3 of 4 answers are no labels (0, 1); the first is "1.0"; they count as wrong", or no numbers: of the rows that are
// scored by labels or numbers. Empty where all answers are such, and of a task whose answers are words.
std::string AnswersOfNoLabel(const TaskType& type, const std::vector<TaskRow>& rows,
                             const std::vector<TaskPrediction>& predictions);

// Files that come beside the official predictions: SQuAD 2.0's no-answer probabilities, and a text-to-text model's own
// words.

// A JSON object of a number for each id: becomes the predictions' `no_answer`, and their order that of the file, since
// the search for the best threshold goes by it. Ids without a prediction are left out. Error(kData) for a value that is
// no number and a prediction of a row without one.
void ReadNoAnswerProbabilities(const std::string& path, const std::vector<TaskRow>& rows,
                               std::vector<TaskPrediction>* predictions);

// A text-to-text model's words, turned into answers by the task's `answer_of_text`: an object of a text for each id
// where the file's name ends in .json, else a line for each row, in the order of the rows. Error(kData) for an id that
// is no row's, and if there are more or fewer lines than rows.
std::vector<TaskPrediction> ReadTextPredictions(const TaskType& type, const std::string& path,
                                                const std::vector<TaskRow>& rows);

// One number for a whole benchmark, as its authors define it.

// "glue", "superglue".
std::vector<std::string> BenchmarkNames();
// The tasks that a benchmark's averages are taken over; its diagnostics are in none. Error(kUsage) of the field
// "benchmark" for another name.
std::vector<std::string> BenchmarkTasks(std::string_view benchmark);

// The mean over the tasks of their scores (MainScore: of several measures the mean), MNLI's two sets being one task.
// GLUE has a second one, without WNLI, as T5 and others report it.
struct BenchmarkAverage {
  std::string name;  // "average", "average_without_wnli"
  double value;      // NaN where no task has a score
  int64_t tasks;     // how many have one
  int64_t of;        // and how many there are
};
std::vector<BenchmarkAverage> BenchmarkAverages(std::string_view benchmark,
                                                const std::map<std::string, double>& scores);

}  // namespace crosstalk
