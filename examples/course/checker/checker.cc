#include "examples/course/checker/checker.h"

#include <algorithm>
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

// The index of element i, a number for each dimension.
std::vector<int64_t> IndexOf(const Array& array, size_t i) {
  std::vector<int64_t> index(array.sizes().size());
  auto rest = static_cast<int64_t>(i);
  for (size_t dim = index.size(); dim-- > 0;) {
    const int64_t size = array.size(static_cast<int>(dim));
    index[dim] = rest % size;
    rest /= size;
  }
  return index;
}

// The brackets' names of dimensions; none for a number alone, such as "dx".
std::vector<std::string> NamesOf(const Array& array) {
  if (array.bracket().find('[') == std::string::npos) return {};
  return crosstalk::ParseBracket(array.bracket()).indices;
}

std::string TensorOf(const Array& array) { return array.bracket().substr(0, array.bracket().find('[')); }

// "L[b=0, h=2, n=1, m=3]" of element i; "dx" of a number alone.
std::string ElementName(const Array& array, size_t i) {
  const std::vector<std::string> names = NamesOf(array);
  if (names.empty()) return array.bracket();
  const std::vector<int64_t> index = IndexOf(array, i);
  std::string text;
  for (size_t dim = 0; dim < names.size(); ++dim) {
    text += (dim == 0 ? "" : ", ") + names[dim] + "=" + std::to_string(index[dim]);
  }
  return TensorOf(array) + "[" + text + "]";
}

// What several elements have in common: ", all at n=2, h=1"; empty if nothing.
std::string InCommon(const Array& array, const std::vector<size_t>& elements) {
  const std::vector<std::string> names = NamesOf(array);
  std::string text;
  for (size_t dim = 0; dim < names.size() && elements.size() > 1; ++dim) {
    const int64_t first = IndexOf(array, elements.front())[dim];
    const bool common = array.size(static_cast<int>(dim)) > 1 &&
                        std::all_of(elements.begin(), elements.end(),
                                    [&](size_t element) { return IndexOf(array, element)[dim] == first; });
    if (common) text += (text.empty() ? ", all at " : ", ") + names[dim] + "=" + std::to_string(first);
  }
  return text;
}

// The first element that differs, empty if none does. `right` has the bracket.
std::string FirstDifference(const Array& got, const Array& right, double tolerance) {
  if (got.sizes() != right.sizes()) {
    return right.bracket() + " has the sizes " + ListOf(got.sizes()) + ", should have " + ListOf(right.sizes());
  }
  const double bound = BoundOf(right, tolerance);
  std::vector<size_t> wrong;
  for (size_t i = 0; i < right.values().size(); ++i) {
    if (!Close(got.values()[i], right.values()[i], bound)) wrong.push_back(i);
  }
  if (wrong.empty()) return "";
  const size_t first = wrong.front();
  const double is = got.values()[first], should_be = right.values()[first];
  // As few digits as show the difference; of a count all.
  const bool counts =
      std::max(std::abs(is), std::abs(should_be)) < 1e9 && is == std::round(is) && should_be == std::round(should_be);
  std::string one = Number(is, counts ? "%.0f" : "%.3g"), other = Number(should_be, counts ? "%.0f" : "%.3g");
  if (one == other) one = Number(is, "%.12g"), other = Number(should_be, "%.12g");
  std::string text = ElementName(right, first) + " = " + one + ", should be " + other;
  if (right.values().size() > 1) {
    text += " (the first of " + std::to_string(wrong.size()) + " wrong among " + std::to_string(right.values().size()) +
            InCommon(right, wrong) + ")";
  }
  return text;
}

// An array as it is with two of its dimensions exchanged.
Array Exchanged(const Array& array, size_t p, size_t q) {
  std::vector<int64_t> sizes = array.sizes();
  std::swap(sizes[p], sizes[q]);
  Array result(sizes);
  for (size_t i = 0; i < array.values().size(); ++i) {
    std::vector<int64_t> index = IndexOf(array, i);
    std::swap(index[p], index[q]);
    int64_t at = 0;
    for (size_t dim = 0; dim < sizes.size(); ++dim) at = at * sizes[dim] + index[dim];
    result.values()[static_cast<size_t>(at)] = array.values()[i];
  }
  return result;
}

// A slip that gives what was got; null if none does. First one that gives all results, then one that gives the one that
// is wrong first; of each, those of one mistake before those of two.
const Slip* Recognised(const std::vector<Slip>& slips, const Results& got, const Results& right, size_t first,
                       double tolerance) {
  const Slip* partly = nullptr;
  for (const bool two : {false, true}) {
    for (const Slip& slip : slips) {
      if (slip.two != two) continue;
      try {
        const Results wrong = slip.wrong();
        if (Same(wrong.at(first), right[first], tolerance) || !Same(got[first], wrong[first], tolerance)) continue;
        bool all = true;
        for (size_t i = 0; i < right.size(); ++i) all = all && Same(got.at(i), wrong.at(i), tolerance);
        if (all) return &slip;
        if (partly == nullptr) partly = &slip;
      } catch (const std::out_of_range&) {
        continue;  // of these sizes the slip reads what is not there
      }
    }
  }
  return partly;
}

struct Seen {
  std::string name, hint;  // empty: nothing
};

// What the numbers themselves show, where no slip of the exercise gives them.
Seen LookAt(const Array& got, const Array& right, double tolerance) {
  const std::vector<std::string> names = NamesOf(right);
  for (size_t p = 0; p < names.size(); ++p)
    for (size_t q = p + 1; q < names.size(); ++q) {
      if (Same(got, Exchanged(right, p, q), tolerance)) {
        return {"dimensions exchanged",
                "these are the right numbers with " + names[p] + " and " + names[q] + " exchanged."};
      }
    }
  if (got.sizes() != right.sizes() || right.values().size() < 2) return {};
  const auto& a = got.values();
  const auto& b = right.values();
  const double bound = BoundOf(right, tolerance);
  const auto all = [&](auto holds) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (!holds(a[i], b[i])) return false;
    }
    return true;
  };
  if (all([](double x, double) { return x == 0; })) return {"all zero", "all of it is 0: is it ever written?"};
  if (!all([](double x, double y) { return !std::isnan(x) || std::isnan(y); })) {
    return {"no number", "nan comes of 0/0, of ∞ - ∞, and of a number that was never set."};
  }
  if (!all([](double x, double y) { return std::isfinite(x) && std::isfinite(y); })) return {};
  const auto largest = static_cast<size_t>(
      std::max_element(b.begin(), b.end(), [](double x, double y) { return std::abs(x) < std::abs(y); }) - b.begin());
  const double factor = a[largest] / b[largest], offset = a[largest] - b[largest];
  const auto others = std::count_if(b.begin(), b.end(), [&](double y) { return std::abs(y) > bound; });
  if (others > 1 && all([&](double x, double y) { return Close(x, factor * y, std::abs(factor) * bound); })) {
    if (std::abs(factor + 1) < 1e-6) return {"sign", "every element has the wrong sign."};
    return {"a factor", "every element is " + Number(factor, "%.4g") + " times what it should be."};
  }
  if (all([&](double x, double y) { return Close(x - offset, y, bound); })) {
    return {"an offset", "every element is off by " + Number(offset, "%.4g") + "."};
  }
  return {};
}

}  // namespace

void Checker::Expect(const std::string& where, const Results& got, const Results& right, const std::vector<Slip>& slips,
                     double tolerance) {
  for (const Slip& slip : slips) {
    if (!slip.two) Knows(slip.name);
  }
  for (size_t i = 0; i < right.size(); ++i) {
    const std::string difference = FirstDifference(got.at(i), right[i], tolerance);
    if (difference.empty()) continue;
    const std::string message = "with " + where + ": " + difference;
    if (const Slip* slip = Recognised(slips, got, right, i, tolerance)) Require(false, message, slip->name, slip->hint);
    for (size_t j = 0; j < right.size(); ++j) {
      if (j == i || !Same(got[i], right[j], tolerance)) continue;
      Require(false, message, "results exchanged",
              "these are the numbers of " + TensorOf(right[j]) + ": two results are exchanged.");
    }
    const Seen seen = LookAt(got[i], right[i], tolerance);
    Require(false, message, seen.name, seen.hint);
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

const char* Name(Outcome::State state) {
  static constexpr const char* kNames[] = {"right",       "to be done", "wrong",          "missing", "does not compile",
                                           "out of time", "died",       "gives no result"};
  return kNames[static_cast<size_t>(state)];
}

Stopped StoppedByException() {
  using State = Outcome::State;
  try {
    throw;
  } catch (const Stopped& stopped) {
    return stopped;
  } catch (const Unsolved& unsolved) {
    return {State::kUnsolved, unsolved.what()};
  } catch (const NoResult& error) {
    return {State::kWrong, error.what()};
  } catch (const std::exception& error) {
    return {State::kWrong, std::string("it throws: ") + error.what()};
  } catch (...) {
    return {State::kWrong, "it throws something that is no std::exception"};
  }
}

Outcome RunCheck(const Exercise& exercise, AnyFunction function, const Caller& caller) {
  Checker checker(caller);
  Outcome& outcome = checker.outcome();
  try {
    exercise.check(function, checker);
  } catch (const Wrong&) {
  } catch (...) {
    const Stopped stopped = StoppedByException();
    outcome.state = stopped.state;
    outcome.message = stopped.message;
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

std::string ScaledBy(double used, double scale) {
  return "the logits are multiplied by " + Number(used, "%.4g") + ", should be by scale = " + Number(scale, "%.4g") +
         ".";
}

std::string GradientScaledBy(double scale) {
  return crosstalk::StrCat("this gradient is ", scale,
                           " times what it should be, and so large is the scale, which it has once: "
                           "dQ = scale · Σ_m dJ · K.");
}

std::string ListOf(const std::vector<int64_t>& sizes) { return ToString(crosstalk::Shape(sizes)); }

Array Transposed(const Array& P) {
  Array result(P.bracket(), Array({P.size(1), P.size(0)}));
  for (int64_t i = 0; i < P.size(0); ++i)
    for (int64_t j = 0; j < P.size(1); ++j) result(j, i) = P(i, j);
  return result;
}

}  // namespace course
