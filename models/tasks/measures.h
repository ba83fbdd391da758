// Measures: how well a list of answers agrees with what is right. Targets and answers are of the same length, class
// numbers or real ones; of nothing every measure is NaN.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "crosstalk/models/tasks/task.h"

namespace crosstalk {

// The class of an answer that is none of the task's labels.
inline constexpr int64_t kNoLabel = -1;

// The share of answers that equal their target.
double Accuracy(std::span<const int64_t> targets, std::span<const int64_t> answers);

// F1 = 2·TP / (targets + answers) of class 1 among 0 and 1; an answer that is neither counts as its target's opposite.
// 0 where neither side has the class.
double BinaryF1(std::span<const int64_t> targets, std::span<const int64_t> answers);

// The mean over the classes 0 to classes - 1 of the F1 of each; other answers are of no class.
double MacroF1(std::span<const int64_t> targets, std::span<const int64_t> answers, int64_t classes);

// Matthews correlation of any number of classes (R_K), (c·n - Σ t_k·a_k) / √((n² - Σ t_k²)(n² - Σ a_k²)) with c right
// ones among n, t_k targets and a_k answers of class k. kNoLabel is a class like the others. 0 where a side has only
// one class.
double Matthews(std::span<const int64_t> targets, std::span<const int64_t> answers);

// Σ(x - x̄)(y - ȳ) / √(Σ(x - x̄)² Σ(y - ȳ)²), within 1e-15 whatever the offsets and magnitudes. NaN where a side is
// constant or has a number that is not finite.
double Pearson(std::span<const double> x, std::span<const double> y);

// 1 for the least; equal ones have the mean of the ranks that they take up. Of numbers that are not NaN.
std::vector<double> AverageRanks(std::span<const double> values);

// Pearson of the ranks. NaN where a side is constant or has a NaN.
double Spearman(std::span<const double> x, std::span<const double> y);

}  // namespace crosstalk

#pragma GCC visibility push(default)
namespace crosstalk {

// The best answer to a task without reading it: a model must beat it to have learnt anything.

struct ConstantAnswer {
  std::vector<TaskPrediction> predictions;
  std::vector<Metric> measures;  // of these
};
// The constant answer to the rows with the highest MainScore, of all: each label, each place among the choices,
// the mean number, no answer.
ConstantAnswer BestConstantAnswer(const TaskType& task, const std::vector<TaskRow>& rows);

}  // namespace crosstalk
#pragma GCC visibility pop
