#include "crosstalk/models/tasks/measures.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The counts of a ratio of sums: n, targets, answers, and those that are both.
struct ClassCounts {
  int64_t targets = 0, answers = 0, both = 0;
};

double F1Of(const ClassCounts& counts) {
  const int64_t sum = counts.targets + counts.answers;
  return sum == 0 ? 0 : 2.0 * static_cast<double>(counts.both) / static_cast<double>(sum);
}

std::map<int64_t, ClassCounts> CountClasses(std::span<const int64_t> targets, std::span<const int64_t> answers) {
  CROSSTALK_DCHECK(targets.size() == answers.size());
  std::map<int64_t, ClassCounts> classes;
  for (size_t i = 0; i < targets.size(); ++i) {
    ++classes[targets[i]].targets;
    ++classes[answers[i]].answers;
    if (targets[i] == answers[i]) ++classes[targets[i]].both;
  }
  return classes;
}

// A sum of twice double's digits: sum + rest, where rest is the rounding error of sum.
struct LongSum {
  double sum = 0, rest = 0;

  void Add(double term) {
    const double next = sum + term;
    const double of_term = next - sum;
    rest += (sum - (next - of_term)) + (term - of_term);
    sum = next;
  }
  // a·b, cut into halves of 26 bits whose products are exact (Dekker).
  void AddProduct(double a, double b) {
    const auto high = [](double x) {
      constexpr double kSplit = 134217729;  // 2^27 + 1
      const double scaled = kSplit * x;
      return scaled - (scaled - x);
    };
    const double a1 = high(a), a2 = a - a1, b1 = high(b), b2 = b - b1;
    const double product = a * b;
    Add(product);
    rest += a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2);
  }
  double Value() const { return sum + rest; }
};

// 2^k with the greatest magnitude of `values` below 2 · 2^k, so that dividing by it is exact and squares stay in range.
double Magnitude(std::span<const double> values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  double power = 1;
  while (power < most / 2) power *= 2;
  while (power > most) power /= 2;
  return power;
}

// Numbers that are finite and not all the same as x / 2^k - mean, with the rounding of that mean.
struct Centred {
  std::vector<double> deviations;
  double mean_deviation;  // what is left of it by rounding
};

Centred Centre(std::span<const double> values) {
  const double magnitude = Magnitude(values);
  const auto n = static_cast<double>(values.size());
  LongSum sum;
  for (const double value : values) sum.Add(value / magnitude);
  const double mean = sum.Value() / n;
  Centred centred;
  LongSum left;
  for (const double value : values) {
    centred.deviations.push_back(value / magnitude - mean);
    left.Add(centred.deviations.back());
  }
  centred.mean_deviation = left.Value() / n;
  return centred;
}

// Σ(x - x̄)(y - ȳ) = Σ d·e - n·d̄·ē
double Covariance(const Centred& x, const Centred& y) {
  LongSum sum;
  for (size_t i = 0; i < x.deviations.size(); ++i) sum.AddProduct(x.deviations[i], y.deviations[i]);
  sum.Add(-static_cast<double>(x.deviations.size()) * x.mean_deviation * y.mean_deviation);
  return sum.Value();
}

bool IsConstant(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [&](double value) { return value == values[0]; });
}

bool HasNaN(std::span<const double> values) {
  return std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
}

bool AllFinite(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}

}  // namespace

double Accuracy(std::span<const int64_t> targets, std::span<const int64_t> answers) {
  CROSSTALK_DCHECK(targets.size() == answers.size());
  if (targets.empty()) return kNaN;
  int64_t right = 0;
  for (size_t i = 0; i < targets.size(); ++i) right += targets[i] == answers[i];
  return static_cast<double>(right) / static_cast<double>(targets.size());
}

double BinaryF1(std::span<const int64_t> targets, std::span<const int64_t> answers) {
  CROSSTALK_DCHECK(targets.size() == answers.size());
  if (targets.empty()) return kNaN;
  ClassCounts counts;
  for (size_t i = 0; i < targets.size(); ++i) {
    const bool target = targets[i] == 1;
    const bool answer = answers[i] == 0 || answers[i] == 1 ? answers[i] == 1 : !target;
    counts.targets += target;
    counts.answers += answer;
    counts.both += target && answer;
  }
  return F1Of(counts);
}

double MacroF1(std::span<const int64_t> targets, std::span<const int64_t> answers, int64_t classes) {
  if (targets.empty()) return kNaN;
  std::map<int64_t, ClassCounts> counts = CountClasses(targets, answers);
  double sum = 0;
  for (int64_t k = 0; k < classes; ++k) sum += F1Of(counts[k]);
  return sum / static_cast<double>(classes);
}

double Matthews(std::span<const int64_t> targets, std::span<const int64_t> answers) {
  if (targets.empty()) return kNaN;
  const auto n = static_cast<double>(targets.size());
  double right = 0, products = 0, target_squares = 0, answer_squares = 0;  // integers, exact to n = 9e7
  for (const auto& [label, counts] : CountClasses(targets, answers)) {
    const auto t = static_cast<double>(counts.targets), a = static_cast<double>(counts.answers);
    right += static_cast<double>(counts.both);
    products += t * a;
    target_squares += t * t;
    answer_squares += a * a;
  }
  const double variances = (n * n - target_squares) * (n * n - answer_squares);
  return variances == 0 ? 0 : (right * n - products) / std::sqrt(variances);
}

double Pearson(std::span<const double> x, std::span<const double> y) {
  CROSSTALK_DCHECK(x.size() == y.size());
  if (x.empty() || !AllFinite(x) || !AllFinite(y) || IsConstant(x) || IsConstant(y)) return kNaN;
  const Centred a = Centre(x), b = Centre(y);
  const double r = Covariance(a, b) / std::sqrt(Covariance(a, a) * Covariance(b, b));
  return std::clamp(r, -1.0, 1.0);
}

std::vector<double> AverageRanks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double rank = static_cast<double>(begin + 1 + end) / 2;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = rank;
  }
  return ranks;
}

double Spearman(std::span<const double> x, std::span<const double> y) {
  CROSSTALK_DCHECK(x.size() == y.size());
  if (HasNaN(x) || HasNaN(y)) return kNaN;
  return Pearson(AverageRanks(x), AverageRanks(y));
}

namespace {

using Guess = std::function<std::string(const TaskRow&)>;

std::vector<Guess> Guesses(const TaskType& task, const std::vector<TaskRow>& rows) {
  std::vector<Guess> guesses;
  switch (task.form) {
    case TaskForm::kClassification:
      for (const char* label : task.labels) guesses.push_back([label](const TaskRow&) { return std::string(label); });
      break;
    case TaskForm::kRegression: {
      double sum = 0;
      for (const TaskRow& row : rows) sum += row.number;
      const std::string mean = Json(rows.empty() ? 0 : sum / static_cast<double>(rows.size())).Dump();
      guesses.push_back([mean](const TaskRow&) { return mean; });
      break;
    }
    case TaskForm::kMultipleChoice: {
      size_t most = 0;
      for (const TaskRow& row : rows) most = std::max(most, row.choices.size());
      for (size_t place = 0; place < most; ++place) {
        guesses.push_back([place](const TaskRow& row) {
          return row.choices.empty() ? "" : row.choices[std::min(place, row.choices.size() - 1)].answer;
        });
      }
      break;
    }
    case TaskForm::kSpan:
      guesses.push_back([](const TaskRow&) { return std::string(); });
      break;
  }
  return guesses;
}

}  // namespace

ConstantAnswer BestConstantAnswer(const TaskType& task, const std::vector<TaskRow>& rows) {
  ConstantAnswer best;
  double best_score = 0;
  for (const Guess& guess : Guesses(task, rows)) {
    ConstantAnswer answer;
    for (const TaskRow& row : rows) answer.predictions.push_back({row.id, guess(row), {}});
    answer.measures = task.score(task, rows, answer.predictions);
    const double score = MainScore(task, answer.measures);
    if (!best.predictions.empty() && !(score > best_score)) continue;
    best = std::move(answer);
    best_score = score;
  }
  return best;
}

}  // namespace crosstalk
