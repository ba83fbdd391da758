// How an exercise is checked: the student's results beside the reference's, element by element in double; the first
// wrong one by its dimensions; and, where the results are those that a known slip gives, the hint for it.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "examples/course/checker/exercise.h"

namespace course {

using Results = std::vector<Array>;  // each with its bracket

// A common mistake and its results: a solution with these results gets the hint.
struct Slip {
  std::string name;
  std::string hint;
  std::function<Results()> wrong;
  bool two = false;  // two mistakes at once
};

// A slip as what it changes in a case of the exercise.
template <typename Case>
struct Change {
  std::string name;
  std::string hint;
  std::function<void(Case&)> make;
};

// The slips that make one of the changes, and those that make two of them.
template <typename Case>
std::vector<Slip> SlipsOf(const Case& right, const std::vector<Change<Case>>& changes,
                          const std::function<Results(const Case&)>& results) {
  const auto shared = std::make_shared<const std::pair<Case, std::vector<Change<Case>>>>(right, changes);
  const auto with = [&](size_t i, size_t j) {
    return [shared, results, i, j] {
      Case changed = shared->first;
      shared->second[i].make(changed);
      if (i != j) shared->second[j].make(changed);
      return results(changed);
    };
  };
  std::vector<Slip> slips;
  for (size_t i = 0; i < changes.size(); ++i) slips.push_back({changes[i].name, changes[i].hint, with(i, i)});
  for (size_t i = 0; i < changes.size(); ++i)
    for (size_t j = i + 1; j < changes.size(); ++j) {
      slips.push_back({changes[i].name + " + " + changes[j].name,
                       "two slips at once. First: " + changes[i].hint + " Second: " + changes[j].hint, with(i, j),
                       true});
    }
  return slips;
}

// Thrown where a result cannot be compared: of other sizes than the exercise asks for.
class NoResult : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Outcome {
  enum class State { kSolved, kUnsolved, kWrong, kMissing, kNotCompiled, kOutOfTime, kDied, kSilent };
  State state = State::kSolved;
  std::string message;             // what is wrong: the case, and the first wrong element
  std::string slip, hint;          // empty: none that is known
  std::vector<std::string> notes;  // what was measured, in words and in numbers
  std::vector<std::pair<std::string, double>> measures;
  std::vector<std::string> slips;  // the names of all that the exercise knows
};

// "right", "to be done", …
const char* Name(Outcome::State state);

// Ends a check in this state.
struct Stopped {
  Outcome::State state;
  std::string message;
};
// What comes of the exception that is being handled.
Stopped StoppedByException();

// Calls the student's function: here, or in a process of its own.
using Caller = std::function<Results(const std::function<Results()>& student)>;

class Checker {
 public:
  explicit Checker(Caller caller) : caller_(std::move(caller)) {}

  // What `student` gives. It alone calls the student's function, and changes nothing here.
  Results Call(const std::function<Results()>& student) { return caller_(student); }
  // Checks one case, described by `where` ("b=2 n=3"): |got - right| ≤ tolerance · max |right| for what the
  // student's function gives, or has given. Ends the check if it is wrong.
  void Expect(const std::string& where, const std::function<Results()>& student, const Results& right,
              const std::vector<Slip>& slips, double tolerance = 1e-9) {
    Expect(where, Call(student), right, slips, tolerance);
  }
  void Expect(const std::string& where, const Results& got, const Results& right, const std::vector<Slip>& slips,
              double tolerance = 1e-9);
  // Ends the check where the condition does not hold.
  void Require(bool condition, const std::string& message, const std::string& slip = "", const std::string& hint = "");
  // A slip that Require finds.
  void Knows(const std::string& slip);
  void Note(const std::string& note) { outcome_.notes.push_back(note); }
  void Measure(const std::string& name, double value) { outcome_.measures.emplace_back(name, value); }

  Outcome& outcome() { return outcome_; }

 private:
  Caller caller_;
  Outcome outcome_;
};

struct Exercise {
  std::string id;  // "5.2"
  int points = 0;
  std::string title;
  void (*check)(AnyFunction, Checker&);
  unsigned seconds = 10;  // that it may take
  bool measured = false;  // as a kernel, whose time counts
};
const std::vector<Exercise>& Exercises();
// Null if there is none.
const Exercise* FindExercise(const std::string& id);

std::vector<Exercise> Chapter1();
std::vector<Exercise> Chapter2();
std::vector<Exercise> Chapter3();
std::vector<Exercise> Chapter4();
std::vector<Exercise> Chapter5();
std::vector<Exercise> Chapter6();
std::vector<Exercise> Chapter7();
std::vector<Exercise> Chapter8();

// What EXERCISE has registered: in a program of one exercise that alone.
struct Registered {
  std::string id;    // "5.2"
  std::string file;  // where EXERCISE stands
  AnyFunction function;
};
const std::vector<Registered>& AllRegistered();

Outcome RunCheck(
    const Exercise& exercise, AnyFunction function,
    const Caller& caller = [](const std::function<Results()>& student) { return student(); });

// `function`, or where that is null the only one that this process has registered.
template <typename Signature>
Signature* As(AnyFunction function) {
  return reinterpret_cast<Signature*>(function != nullptr ? function : AllRegistered().at(0).function);
}

// ---- Inputs ----

// Normal numbers, a function of the bracket and the sizes.
Array Random(const std::string& bracket, const std::vector<int64_t>& sizes, double stddev = 1);
// "the logits are multiplied by 0.25, should be by scale = 0.5."
std::string ScaledBy(double used, double scale);
// A hint: the gradient has the scale once more than its equation.
std::string GradientScaledBy(double scale);
// "[2, 3]"
std::string ListOf(const std::vector<int64_t>& sizes);
// P[i, j] as P[j, i], of the same bracket.
Array Transposed(const Array& P);

}  // namespace course
