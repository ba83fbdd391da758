// The exercises of the course: every one has a stub that says what is asked, a solution that is right, and slips, each
// of which is told its own hint.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "course/cases.inc"  // by write_cases.sh: solutions, stubs and slips
#include "tests/course/checker/checker.h"
#include "tests/course/library_exercise.h"

namespace course_test {

using course::Exercise;
using course::Outcome;
using course::Registered;

// Those in a folder, by the rest of their path.
std::map<std::string, Registered> RegisteredIn(const std::string& folder) {
  std::map<std::string, Registered> found;
  for (const Registered& one : course::AllRegistered()) {
    const size_t at = one.file.find(folder);
    if (at != std::string::npos) found[one.file.substr(at + folder.size())] = one;
  }
  return found;
}

Outcome Check(const Registered& one) {
  const Exercise* exercise = course::FindExercise(one.id);
  if (exercise == nullptr) throw std::runtime_error("there is no exercise " + one.id);
  return RunCheck(*exercise, one.function);
}

TEST(CourseTest, EverySolutionIsRight) {
  const auto solutions = RegisteredIn("tests/course/solutions/");
  EXPECT_EQ(solutions.size(), course::Exercises().size());
  for (const auto& [name, solution] : solutions) {
    const Outcome outcome = Check(solution);
    EXPECT_EQ(outcome.state, Outcome::State::kSolved) << name << ": " << outcome.message << " " << outcome.hint;
  }
}

TEST(CourseTest, EveryStubSaysThatItIsToBeDone) {
  const auto stubs = RegisteredIn("examples/course/exercises/");
  EXPECT_EQ(stubs.size(), course::Exercises().size());
  for (const auto& [name, stub] : stubs) {
    const Outcome outcome = Check(stub);
    EXPECT_EQ(outcome.state, Outcome::State::kUnsolved) << name;
    EXPECT_EQ(outcome.message, "exercise " + stub.id + " is still to be done") << name;
  }
}

TEST(CourseTest, EverySlipIsToldItsHint) {
  std::set<std::string> tried;
  for (const auto& [name, slip] : RegisteredIn("slips/")) {
    const Outcome outcome = Check(slip);
    EXPECT_EQ(outcome.state, Outcome::State::kWrong) << name;
    EXPECT_EQ(slip.id + "/" + outcome.slip, name) << outcome.message << "\n" << outcome.hint;
    EXPECT_FALSE(outcome.hint.empty()) << name;
    tried.insert(name);
  }
  // And there is no other that an exercise knows.
  for (const auto& [name, solution] : RegisteredIn("tests/course/solutions/")) {
    for (const std::string& slip : Check(solution).slips) {
      EXPECT_EQ(tried.count(solution.id + "/" + slip), 1u) << "slips.txt has no " << solution.id << " | " << slip;
    }
  }
}

TEST(CourseTest, TheFirstWrongElementIsNamedByItsDimensions) {
  const Outcome outcome = Check(RegisteredIn("slips/").at("5.1/P_l transposed"));
  EXPECT_EQ(
      outcome.message,
      "with b=2 n=3 m=4 d_k=2 d_v=2 h_k=3 h=3 h_v=3: L[b=0, n=0, m=0, h=0] = -0.0582, should be -0.257 (the first "
      "of 72 wrong among 72)");
}

}  // namespace course_test
