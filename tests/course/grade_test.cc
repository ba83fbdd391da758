// `make exercise` and `make grade` as a student and a teacher use them, on folders of their own.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "crosstalk/runtime/json.h"
#include "tests/support/shell.h"
#include "tests/support/temp_dir.h"

namespace grade_test {

namespace fs = std::filesystem;
using crosstalk::Json;
using crosstalk::ShellResult;

ShellResult InSource(const std::string& command) {
  return crosstalk::RunShell("cd \"$CROSSTALK_SOURCE\" && { " + command + "; }");
}

// With what the make that runs this test was given, so that nothing has other flags and is built again.
ShellResult Make(const std::string& arguments) {
  return InSource("make --no-print-directory BUILD=\"$CROSSTALK_BUILD\" CROSSTALK_SETUP_DONE=1 " + arguments);
}

std::string Contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::string Replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

class GradeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("CROSSTALK_SOURCE") == nullptr || std::getenv("CROSSTALK_BUILD") == nullptr) {
      GTEST_SKIP() << "run by `make test`, which says where the sources are";
    }
    source_ = std::getenv("CROSSTALK_SOURCE");
  }
  std::string Solution(const std::string& name) const { return Contents(source_ / "examples/course/solutions" / name); }
  std::string Stub(const std::string& name) const { return Contents(source_ / "examples/course/exercises" / name); }

  fs::path source_;
  crosstalk::TempDir folder_;
};

TEST_F(GradeTest, AnExerciseBeginsAsItsStubAndIsNeverOverwritten) {
  const std::string own = folder_.path() + "/own";
  const ShellResult begun = Make("exercise N=5.1 SUBMISSION='" + own + "'");
  EXPECT_NE(begun.status, 0);
  EXPECT_NE(begun.output.find("exercise 5.1 is still to be done"), std::string::npos) << begun.output;
  EXPECT_NE(begun.output.find("make exercise N=5.1 again"), std::string::npos) << begun.output;
  EXPECT_EQ(Contents(own + "/5_1.cc"), Stub("5_1.cc"));

  const std::string slip = Replaced(Solution("5_1.cc"), "P_l(k, h)", "P_l(h, k)");
  Write(own + "/5_1.cc", slip);
  const ShellResult wrong = Make("exercise N=5.1 SUBMISSION='" + own + "'");
  EXPECT_NE(wrong.status, 0);
  EXPECT_NE(wrong.output.find("hint: P_l is read transposed"), std::string::npos) << wrong.output;
  EXPECT_NE(wrong.output.find("0 of 1 points"), std::string::npos) << wrong.output;
  EXPECT_EQ(Contents(own + "/5_1.cc"), slip);

  Write(own + "/5_1.cc", Solution("5_1.cc"));
  const ShellResult right = Make("exercise N=5.1 SUBMISSION='" + own + "'");
  EXPECT_EQ(right.status, 0);
  EXPECT_NE(right.output.find("right: 1 of 1 points"), std::string::npos) << right.output;
}

TEST_F(GradeTest, AStudentIsToldWhyNoVerdictComes) {
  const std::string solution = Solution("3_1.cc");
  const auto output_with = [&](const std::string& end) {
    Write(folder_.path() + "/3_1.cc",
          "#include <chrono>\n#include <thread>\n" + Replaced(solution, "  return J;", end));
    return Make("exercise N=3.1 SUBMISSION='" + folder_.path() + "'").output;
  };
  const std::string slow = output_with("  std::this_thread::sleep_for(std::chrono::seconds(6));\n  return J;");
  EXPECT_NE(slow.find("it still runs: does a loop not end?"), std::string::npos) << slow;
  EXPECT_NE(slow.find("right: 1 of 1 points"), std::string::npos) << slow;
  const std::string no_return = output_with("");
  EXPECT_NE(no_return.find("error: no return statement"), std::string::npos) << no_return;
#ifndef __SANITIZE_ADDRESS__  // which tells of it first
  const std::string outside = output_with("  J.values().data()[int64_t{1} << 40] = 1;\n  return J;");
  EXPECT_NE(outside.find("an index or a pointer is wrong"), std::string::npos) << outside;
#endif
  const std::string index = output_with("  J.values()[J.values().size()] = 1;\n  return J;");
  EXPECT_NE(index.find("Assertion '__n < this->size()' failed"), std::string::npos) << index;
  const std::string thrown = output_with("  throw 3;");
  EXPECT_NE(thrown.find("it throws something that is no std::exception"), std::string::npos) << thrown;
  Write(folder_.path() + "/3_1.cc", Solution("5_1.cc"));
  const std::string other = Make("exercise N=3.1 SUBMISSION='" + folder_.path() + "'").output;
  EXPECT_NE(other.find("3_1.cc must end with EXERCISE(3_1, …), not with that of exercise 5.1"), std::string::npos)
      << other;
}

TEST_F(GradeTest, AnExerciseThatIsNotThereIsAnErrorWithTheList) {
  for (const char* number : {"9.9", "5.1 5.2"}) {
    const ShellResult ran = Make("-n exercise N='" + std::string(number) + "'");
    EXPECT_NE(ran.output.find("is none of the exercises 1.1 1.2"), std::string::npos) << ran.output;
  }
}

// One student's loop without end, memory without bound and syntax error cost nobody else a point.
TEST_F(GradeTest, ManyStudentsAreGradedEachInAProcessWithLimits) {
  const fs::path all = folder_.path() + "/all";
  fs::create_directories(all / "first");
  fs::create_directories(all / "second student");
  Write(all / "first/5_1.cc", Solution("5_1.cc"));
  Write(all / "first/8_2.cc", Stub("8_2.cc"));
  Write(all / "first/1_1.cc", Replaced(Stub("1_1.cc"), "throw Unsolved(\"1.1\")", "for (volatile int i = 0;;) i = 1"));
  Write(all / "first/2_1.cc", "int x = ;\n");
#ifndef __SANITIZE_ADDRESS__  // which takes more addresses than a limit could leave
  Write(all / "second student/1_2.cc",
        Replaced(Stub("1_2.cc"), "throw Unsolved(\"1.2\")",
                 "for (std::vector<std::vector<double>> all;;) all.emplace_back(1 << 24, 1.0)"));
#endif
  Write(all / "second student/5_1.cc", Replaced(Solution("5_1.cc"), "P_l(k, h)", "P_l(h, k)"));
  Write(all / "second student/2_1.cc", Replaced(Stub("2_1.cc"), "throw Unsolved(\"2.1\")", "std::abort()"));

  Write(all / "second student/2_2.cc", Replaced(Stub("2_2.cc"), "throw Unsolved(\"2.2\")", "std::exit(0)"));
  Write(all / "second student/5_2.cc", Solution("5_1.cc"));

  std::string command = Make("-n grade SUBMISSION='" + all.string() + "'").output;
  while (!command.empty() && command.back() == '\n') command.pop_back();
  command = command.substr(command.rfind("\n") + 1);
  const std::string json = folder_.path() + "/grade.json";
  const ShellResult ran = InSource(command + " --seconds 3 --work '" + folder_.path() + "/work' --json '" + json +
                                   "' --table '" + folder_.path() + "/grade.txt'");
  ASSERT_EQ(ran.status, 0) << command << "\n" << ran.output;
  std::map<std::string, std::map<std::string, Json>> results;
  const Json graded = crosstalk::ReadJsonFile(json);
  for (const Json& student : graded.At("students").AsArray()) {
    for (const Json& exercise : student.At("exercises").AsArray()) {
      results[student.At("student").AsString()][exercise.At("exercise").AsString()] = exercise;
    }
  }
  const auto state = [&](const std::string& student, const std::string& exercise) {
    return results[student][exercise].At("state").AsString();
  };
  EXPECT_EQ(state("first", "5.1"), "right");
  EXPECT_EQ(results["first"]["5.1"].At("points").AsInt(), 1);
  EXPECT_EQ(state("first", "8.2"), "to be done");
  EXPECT_EQ(state("first", "1.1"), "out of time");
  EXPECT_EQ(state("first", "2.1"), "does not compile");
  EXPECT_NE(results["first"]["2.1"].At("message").AsString().find("error:"), std::string::npos);
  EXPECT_EQ(state("first", "5.3"), "missing");
  EXPECT_EQ(state("second student", "5.1"), "wrong");
  EXPECT_NE(results["second student"]["5.1"].At("hint").AsString().find("transposed"), std::string::npos);
  EXPECT_EQ(state("second student", "2.1"), "died");
  EXPECT_EQ(results["second student"]["1.2"].At("points").AsInt(), 0);
  EXPECT_EQ(state("second student", "2.2"), "says nothing");
  EXPECT_EQ(results["second student"]["2.2"].At("message").AsString(),
            "it ended before it was checked: does it call exit?");
  EXPECT_EQ(results["second student"]["5.2"].At("message").AsString(),
            "5_2.cc must end with EXERCISE(5_2, …), not with that of exercise 5.1");
  EXPECT_EQ(graded.At("students").AsArray()[0].At("points").AsInt(), 1);
  const std::string table = Contents(folder_.path() + "/grade.txt");
  EXPECT_EQ(table.rfind("student         ch. 1  ch. 2", 0), 0u) << table;
  EXPECT_NE(table.find("\nfirst               0      0      0      0      1      0      0      0      1\n"),
            std::string::npos)
      << table;
  EXPECT_NE(ran.output.find(table), std::string::npos) << ran.output;
}

TEST_F(GradeTest, AFolderWithoutStudentsIsAnError) {
  const ShellResult ran = InSource("\"$CROSSTALK_BUILD\"/tests/course/grade --work '" + folder_.path() +
                                   "' --students '" + folder_.path() + "'");
  EXPECT_NE(ran.status, 0);
  EXPECT_NE(ran.output.find("holds no folders, one for each student"), std::string::npos) << ran.output;
}

}  // namespace grade_test
