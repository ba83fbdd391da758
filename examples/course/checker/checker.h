// How an exercise is checked: the student's results beside the reference's, element by element in double; the first
// wrong one by its dimensions; and, where the results are those that a known slip gives, the hint for it.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "examples/course/checker/exercise.h"

namespace course {

using Results = std::vector<Array>;  // each with its bracket

// Common mistakes and their results: a solution with these results gets the hint.
struct Slip {
  std::string name;
  std::string hint;
  std::function<Results()> wrong;
};

// Thrown where a result cannot be compared: of other sizes than the exercise asks for.
class NoResult : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Outcome {
  enum class State { kSolved, kUnsolved, kWrong };
  State state = State::kSolved;
  std::string message;             // what is wrong: the case, and the first wrong element
  std::string slip, hint;          // empty: none that is known
  std::vector<std::string> notes;  // what was measured, in words and in numbers
  std::vector<std::pair<std::string, double>> measures;
  std::vector<std::string> slips;  // the names of all that the exercise knows
};

class Checker {
 public:
  // Checks one case, described by `where` ("b=2 n=3"): |got - right| ≤ tolerance · max |right| for what the
  // student's function gives. Ends the check if it is wrong.
  void Expect(const std::string& where, const std::function<Results()>& student, const Results& right,
              const std::vector<Slip>& slips, double tolerance = 1e-9);
  // Ends the check where the condition does not hold.
  void Require(bool condition, const std::string& message, const std::string& slip = "", const std::string& hint = "");
  // A slip that Require finds.
  void Knows(const std::string& slip);
  void Note(const std::string& note) { outcome_.notes.push_back(note); }
  void Measure(const std::string& name, double value) { outcome_.measures.emplace_back(name, value); }

  Outcome& outcome() { return outcome_; }

 private:
  Outcome outcome_;
};

struct Exercise {
  std::string id;  // "5.2"
  int points = 0;
  std::string title;
  void (*check)(AnyFunction, Checker&);
  unsigned seconds = 20;  // that it may take when many are graded
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

Outcome RunCheck(const Exercise& exercise, AnyFunction function);

template <typename Signature>
Signature* As(AnyFunction function) {
  return reinterpret_cast<Signature*>(function);
}

// ---- Inputs ----

// Normal numbers, a function of the bracket and the sizes.
Array Random(const std::string& bracket, const std::vector<int64_t>& sizes, double stddev = 1);
// "[2, 3]"
std::string ListOf(const std::vector<int64_t>& sizes);
// P[i, j] as P[j, i], of the same bracket.
Array Transposed(const Array& P);

}  // namespace course
