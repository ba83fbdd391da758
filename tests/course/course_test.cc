// The exercises of the course: every one has a stub that says what is asked, a solution that is right, and slips, each
// of which is told its own hint.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>

#include "course/cases.inc"  // by write_cases.sh: solutions, stubs and slips
#include "examples/course/checker/checker.h"
#include "examples/course/checker/letters.h"

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

// Each is checked once: kernels are measured.
const Outcome& Check(const Registered& one) {
  static std::map<std::string, Outcome> checked;
  const Exercise* exercise = course::FindExercise(one.id);
  if (exercise == nullptr) throw std::runtime_error("there is no exercise " + one.id);
  if (checked.count(one.file) == 0) checked[one.file] = RunCheck(*exercise, one.function);
  return checked[one.file];
}

TEST(CourseTest, EverySolutionIsRight) {
  const auto solutions = RegisteredIn("examples/course/solutions/");
  EXPECT_EQ(solutions.size(), course::Exercises().size());
  for (const auto& [name, solution] : solutions) {
    const Outcome& outcome = Check(solution);
    EXPECT_EQ(outcome.state, Outcome::State::kSolved) << name << ": " << outcome.message << " " << outcome.hint;
  }
}

TEST(CourseTest, EveryStubSaysThatItIsToBeDone) {
  const auto stubs = RegisteredIn("examples/course/exercises/");
  EXPECT_EQ(stubs.size(), course::Exercises().size());
  for (const auto& [name, stub] : stubs) {
    const Outcome& outcome = Check(stub);
    EXPECT_EQ(outcome.state, Outcome::State::kUnsolved) << name;
    EXPECT_EQ(outcome.message, "exercise " + stub.id + " is still to be done") << name;
  }
}

TEST(CourseTest, EverySlipIsToldItsHint) {
  std::set<std::string> tried;
  for (const auto& [name, slip] : RegisteredIn("slips/")) {
    const Outcome& outcome = Check(slip);
    EXPECT_EQ(outcome.state, Outcome::State::kWrong) << name;
    // "a factor (of the batch)" is another slip with the hint "a factor"; "none (…)" has no hint.
    const std::string told = name.substr(0, name.find(" ("));
    const std::string hint = outcome.slip.empty() ? "none" : outcome.slip;
    EXPECT_EQ(slip.id + "/" + hint, told) << name << "\n" << outcome.message << "\n" << outcome.hint;
    EXPECT_EQ(outcome.hint.empty(), hint == "none") << name;
    tried.insert(told);
  }
  // And there is no other that an exercise knows.
  for (const auto& [name, solution] : RegisteredIn("examples/course/solutions/")) {
    for (const std::string& slip : Check(solution).slips) {
      EXPECT_EQ(tried.count(solution.id + "/" + slip), 1u) << "slips.txt has no " << solution.id << " | " << slip;
    }
  }
}

TEST(CourseTest, TheFirstWrongElementIsNamedByItsDimensions) {
  EXPECT_EQ(Check(RegisteredIn("slips/").at("5.1/P_l transposed")).message,
            "with b=2 n=3 m=4 h_k=3 h=3: L[b=0, n=0, m=0, h=0] = -0.0582, should be -0.257 (the first "
            "of 72 wrong among 72)");
  // A count has all its digits.
  EXPECT_EQ(Check(RegisteredIn("slips/").at("8.2/times m")).message,
            "with h_k=4 h=6 h_v=8 d_k=16 d_v=12, static: numbers = 16000, should be 160");
}

// What a solution does that no slip foresaw is shown as well: a result of other sizes, an index outside, an exception.
course::Array OtherSizes(const course::Array& J, const course::Array&) { return J; }
course::Array Outside(const course::Array& J, const course::Array& P_l) {
  return course::Array({static_cast<int64_t>(J(0, 0, 0, 7) * P_l(0, 0))});
}

course::Array NoLogits(const course::Array&, const course::Array&, const course::Array&, const course::Array& P_l,
                       const course::Array&, course::MixingCache& cache) {
  return course::Array({static_cast<int64_t>(cache.K.size()), P_l.size(1)});
}

TEST(CourseTest, OtherMistakesAreShownAsTheyAre) {
  const Outcome empty = RunCheck(*course::FindExercise("8.3"), reinterpret_cast<course::AnyFunction>(&NoLogits));
  EXPECT_EQ(empty.state, Outcome::State::kWrong);
  EXPECT_EQ(empty.message, "step 0 gives L of the sizes [0, 2], should be [1, 2]: m and h");
  const auto check = [](course::Signature_5_1* function) {
    return RunCheck(*course::FindExercise("5.1"), reinterpret_cast<course::AnyFunction>(function));
  };
  const Outcome sizes = check(&OtherSizes), outside = check(&Outside);
  // With equal numbers of heads L has the sizes of J.
  EXPECT_EQ(sizes.state, Outcome::State::kWrong);
  EXPECT_EQ(outside.state, Outcome::State::kWrong);
  EXPECT_EQ(outside.message, "it throws: J[b, n, m, h_k] of size [2, 3, 4, 3] has no element (0, 0, 0, 7)");
}

// All of L but the last query's; zeros stay there.
course::Array AllButOneQuery(const course::Array& J, const course::Array& P_l) {
  course::Array L({J.size(0), J.size(1), J.size(2), P_l.size(1)});
  for (int64_t b = 0; b < J.size(0); ++b)
    for (int64_t n = 0; n + 1 < J.size(1); ++n)
      for (int64_t m = 0; m < J.size(2); ++m)
        for (int64_t k = 0; k < J.size(3); ++k)
          for (int64_t h = 0; h < P_l.size(1); ++h) L(b, n, m, h) += J(b, n, m, k) * P_l(k, h);
  return L;
}

TEST(CourseTest, WhatAllWrongElementsHaveInCommonIsNamed) {
  const auto outcome = RunCheck(*course::FindExercise("5.1"), reinterpret_cast<course::AnyFunction>(&AllButOneQuery));
  EXPECT_NE(outcome.message.find("L[b=0, n=2, m=0, h=0] = 0, should be 0.422 (the first of 24 wrong among 72, all at "
                                 "n=2)"),
            std::string::npos)
      << outcome.message;
}

TEST(CourseTest, AKernelIsMeasuredBesideTheReference) {
  for (const char* name : {"6_3.cc", "6_4.cc"}) {
    const Outcome outcome = Check(RegisteredIn("examples/course/solutions/").at(name));
    std::map<std::string, double> measures(outcome.measures.begin(), outcome.measures.end());
    EXPECT_GT(measures["error"], 0);
    EXPECT_LT(measures["error"], 2e-5);
    EXPECT_GT(measures["share_of_peak"], 0);
    EXPECT_GT(measures["reference_share_of_peak"], 0);
    ASSERT_FALSE(outcome.notes.empty());
    EXPECT_EQ(outcome.notes[0].rfind("correct to ", 0), 0u) << outcome.notes[0];
    EXPECT_NE(outcome.notes[0].find("% of the peak; the reference "), std::string::npos) << outcome.notes[0];
  }
}

TEST(CourseTest, TheReferenceNumbersOfTheTrainingAreThoseOfTenSeeds) {
  const auto train = RegisteredIn("examples/course/solutions/").at("7_3.cc").function;
  std::vector<double> held_out;
  double mean = 0, squares = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    held_out.push_back(
        course::TrainLetters(seed, course::kReferenceSteps, course::As<course::Signature_7_3>(train)).held_out);
    mean += held_out.back() / 10;
  }
  for (const double one : held_out) squares += (one - mean) * (one - mean) / 9;
  EXPECT_NEAR(mean, course::kReferenceHeldOut, 0.0006);
  EXPECT_NEAR(std::sqrt(squares), course::kReferenceDeviation, 0.0006);
}

}  // namespace course_test
