#include "tests/course/checker/checker.h"

#include <cmath>
#include <cstdio>
#include <exception>

#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/shape.h"

namespace course {
namespace {

struct Wrong {};  // ends a check

std::string Number(double value, const char* format) {
  if (std::isnan(value)) return "nan";
  char text[40];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

bool Close(double got, double right, double bound) {
  return got == right || (std::isnan(got) && std::isnan(right)) || std::abs(got - right) <= bound;
}

double BoundOf(const Array& right, double tolerance) {
  double largest = 0;
  for (const double value : right.values()) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return tolerance * largest;
}

bool Same(const Array& got, const Array& right, double tolerance) {
  if (got.sizes() != right.sizes()) return false;
  const double bound = BoundOf(right, tolerance);
  for (size_t i = 0; i < right.values().size(); ++i) {
    if (!Close(got.values()[i], right.values()[i], bound)) return false;
  }
  return true;
}

// "L[b=0, h=2, n=1, m=3]" of element i; "dx" of a number alone.
std::string ElementName(const Array& array, size_t i) {
  const size_t open = array.bracket().find('[');
  if (open == std::string::npos) return array.bracket();
  const crosstalk::Bracket bracket = crosstalk::ParseBracket(array.bracket());
  std::string text;
  auto rest = static_cast<int64_t>(i);
  for (int dim = static_cast<int>(bracket.indices.size()) - 1; dim >= 0; --dim) {
    const int64_t size = array.size(dim);
    text = bracket.indices[static_cast<size_t>(dim)] + "=" + std::to_string(rest % size) + (text.empty() ? "" : ", ") +
           text;
    rest /= size;
  }
  return bracket.tensor + "[" + text + "]";
}

// The first element that differs, empty if none does. `right` has the bracket.
std::string FirstDifference(const Array& got, const Array& right, double tolerance) {
  if (got.sizes() != right.sizes()) {
    return right.bracket() + " has the sizes " + ListOf(got.sizes()) + ", should have " + ListOf(right.sizes());
  }
  const double bound = BoundOf(right, tolerance);
  size_t first = 0, wrong = 0;
  for (size_t i = 0; i < right.values().size(); ++i) {
    if (Close(got.values()[i], right.values()[i], bound)) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0) return "";
  const double is = got.values()[first], should_be = right.values()[first];
  // As few digits as show the difference.
  std::string one = Number(is, "%.3g"), other = Number(should_be, "%.3g");
  if (one == other) one = Number(is, "%.12g"), other = Number(should_be, "%.12g");
  std::string text = ElementName(right, first) + " = " + one + ", should be " + other;
  if (right.values().size() > 1) {
    text += " (the first of " + std::to_string(wrong) + " wrong among " + std::to_string(right.values().size()) + ")";
  }
  return text;
}

}  // namespace

void Checker::Expect(const std::string& where, const std::function<Results()>& student, const Results& right,
                     const std::vector<Slip>& slips, double tolerance) {
  for (const Slip& slip : slips) Knows(slip.name);
  const Results got = student();
  for (size_t i = 0; i < right.size(); ++i) {
    const std::string difference = FirstDifference(got.at(i), right[i], tolerance);
    if (difference.empty()) continue;
    for (const Slip& slip : slips) {
      try {
        const Results wrong = slip.wrong();
        if (Same(wrong.at(i), right[i], tolerance) || !Same(got[i], wrong[i], tolerance)) continue;
      } catch (const std::out_of_range&) {
        continue;  // of these sizes the slip reads what is not there
      }
      Require(false, "with " + where + ": " + difference, slip.name, slip.hint);
    }
    Require(false, "with " + where + ": " + difference);
  }
}

void Checker::Require(bool condition, const std::string& message, const std::string& slip, const std::string& hint) {
  if (condition) return;
  outcome_.state = Outcome::State::kWrong;
  outcome_.message = message;
  outcome_.slip = slip;
  outcome_.hint = hint;
  throw Wrong();
}

void Checker::Knows(const std::string& slip) {
  if (std::find(outcome_.slips.begin(), outcome_.slips.end(), slip) == outcome_.slips.end()) {
    outcome_.slips.push_back(slip);
  }
}

Outcome RunCheck(const Exercise& exercise, AnyFunction function) {
  Checker checker;
  Outcome& outcome = checker.outcome();
  try {
    exercise.check(function, checker);
  } catch (const Wrong&) {
  } catch (const Unsolved& unsolved) {
    outcome.state = Outcome::State::kUnsolved;
    outcome.message = unsolved.what();
  } catch (const std::exception& error) {
    outcome.state = Outcome::State::kWrong;
    outcome.message = std::string("it throws: ") + error.what();
  }
  return outcome;
}

const std::vector<Exercise>& Exercises() {
  static const std::vector<Exercise> all = [] {
    std::vector<Exercise> exercises;
    for (auto* chapter : {Chapter1, Chapter2, Chapter3, Chapter4, Chapter5, Chapter6, Chapter7, Chapter8}) {
      for (const Exercise& exercise : chapter()) exercises.push_back(exercise);
    }
    return exercises;
  }();
  return all;
}

const Exercise* FindExercise(const std::string& id) {
  for (const Exercise& exercise : Exercises()) {
    if (exercise.id == id) return &exercise;
  }
  return nullptr;
}

namespace {

std::vector<Registered>& Registry() {
  static std::vector<Registered> registry;
  return registry;
}

}  // namespace

bool Register(const char* id, const char* file, AnyFunction function) {
  std::string name = id;
  std::replace(name.begin(), name.end(), '_', '.');
  Registry().push_back({name, file, function});
  return true;
}

const std::vector<Registered>& AllRegistered() { return Registry(); }

Array Random(const std::string& bracket, const std::vector<int64_t>& sizes, double stddev) {
  Array array(bracket, Array(sizes));
  const crosstalk::RandomKey key{.seed = 1, .stream = crosstalk::StreamId(bracket), .step = 0};
  for (size_t i = 0; i < array.values().size(); ++i) array.values()[i] = stddev * crosstalk::Normal(key, i);
  return array;
}

std::string ListOf(const std::vector<int64_t>& sizes) { return ToString(crosstalk::Shape(sizes)); }

Array Transposed(const Array& P) {
  Array result(P.bracket(), Array({P.size(1), P.size(0)}));
  for (int64_t i = 0; i < P.size(0); ++i)
    for (int64_t j = 0; j < P.size(1); ++j) result(j, i) = P(i, j);
  return result;
}

}  // namespace course
