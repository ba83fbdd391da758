// Runs tests/sessions/*.session: each session is a test in a folder of its own, each file a program of the suite,
// build/tests/sessions/NAME. With CROSSTALK_ACCEPT_SESSIONS what is printed replaces what was expected.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tests/sessions/session.h"
#include "tests/support/kernel_test.h"
#include "tests/support/messages.h"
#include "tests/support/run_command.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace sessions_test {

namespace fs = std::filesystem;

// A file under way, with the folder of its set-up.
class RunningFile {
 public:
  RunningFile(SessionFile file, std::string source) : file_(std::move(file)), source_(std::move(source)) {}

  void Run(const Session& session) {
    const TempDir folder;
    for (const std::vector<std::string>& needs : {std::as_const(file_).needs, session.needs}) {
      for (const std::string& need : needs) {
        if (!Execute("{ " + need + "; } > /dev/null", folder.path()).empty()) GTEST_SKIP() << "without: " << need;
      }
    }
    if (shared_ == nullptr) {
      shared_ = std::make_unique<TempDir>();
      fs::copy(source_ + "/tests/sessions/files", shared_->path(), fs::copy_options::recursive);
      shared_is_good_ = RunSteps(file_.set_up, shared_->path());
    }
    if (!shared_is_good_) {
      ADD_FAILURE_AT(file_.path.c_str(), 1) << "the set-up failed";
      return;
    }
    fs::copy(shared_->path(), folder.path(), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    RunSteps(session.steps, folder.path());
  }

 private:
  bool RunSteps(const std::vector<SessionStep>& steps, const std::string& folder) {
    bool good = true;
    for (const SessionStep& step : steps) {
      const std::vector<std::string> lines = Execute(step.command, folder);
      const Comparison comparison = Compare(step.expected, lines);
      if (comparison.equal) continue;
      if (std::getenv("CROSSTALK_ACCEPT_SESSIONS") != nullptr) {
        Accept(step, !step.before_arrow.empty() ? std::vector{OneLine(step, lines)} : comparison.accepted);
        continue;
      }
      good = false;
      ADD_FAILURE_AT(file_.path.c_str(), static_cast<int>(step.line)) << "$ " << step.command << "\n"
                                                                      << comparison.difference;
    }
    return good;
  }

  std::vector<std::string> Execute(const std::string& command, const std::string& folder) const {
    const std::string build = fs::path(CrosstalkBinary()).parent_path().string();
    const std::string before =
        StrCat("exec 2>&1; cd '", folder, "' || exit; export SOURCE='", source_, "' BUILD='", build,
               "' LC_ALL=C.UTF-8 TZ=UTC; PATH=\"$BUILD:$SOURCE/tests/sessions/files:$PATH\"\n");
    const unsigned seconds = kernels::Emulated() ? 1200 : 300;
    const CommandResult result = RunCommand({"-c", before + command}, {.program = "/bin/sh", .most_seconds = seconds});
    return LinesOf(Replaced(Replaced(result.output, folder, "$PWD"), source_, "$SOURCE"), result.exit_code);
  }

  void Accept(const SessionStep& step, const std::vector<std::string>& lines) {
    accepted_[step.first] = {step.end, lines};
    std::vector<std::string> text;
    for (size_t i = 0; i <= file_.lines.size();) {
      const auto found = accepted_.find(i);
      if (found != accepted_.end()) text.insert(text.end(), found->second.second.begin(), found->second.second.end());
      const size_t from = found != accepted_.end() ? found->second.first : i;
      if (from < file_.lines.size()) text.push_back(file_.lines[from]);
      i = from + 1;
    }
    std::string joined;
    for (const std::string& line : text) joined += (joined.empty() ? "" : "\n") + line;
    WriteFileAtomically(file_.path, joined);
  }

  SessionFile file_;
  std::string source_;
  std::unique_ptr<TempDir> shared_;
  bool shared_is_good_ = false;
  std::map<size_t, std::pair<size_t, std::vector<std::string>>> accepted_;  // by the first line: the end, and the lines
};

// A test whose body is a function.
class FunctionTest : public ::testing::Test {
 public:
  explicit FunctionTest(std::function<void()> body) : body_(std::move(body)) {}
  void TestBody() override { body_(); }

 private:
  std::function<void()> body_;
};

void Register(const std::string& suite, const std::string& name, const std::string& path, size_t line,
              const std::function<void()>& body) {
  ::testing::RegisterTest(suite.c_str(), name.c_str(), nullptr, nullptr, path.c_str(), static_cast<int>(line),
                          [body]() -> ::testing::Test* { return new FunctionTest(body); });
}

const bool registered = [] {
  const char* variable = std::getenv("CROSSTALK_SOURCE");
  const std::string source = variable != nullptr ? variable : fs::current_path().string();
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(source + "/tests/sessions", none)) {
    if (entry.path().extension() != ".session") continue;
    const std::string path = entry.path().string(), suite = entry.path().stem().string();
    try {
      SessionFile file = ParseSessions(path, ReadBytes(path));
      const auto running = std::make_shared<RunningFile>(file, source);
      for (const Session& session : file.sessions) {
        Register(suite, session.name, path, session.line, [=] { running->Run(session); });
      }
    } catch (const Error& error) {
      Register(suite, "IsUnderstood", path, 1, [what = std::string(error.what())] { FAIL() << what; });
    }
  }
  return true;
}();

TEST(SessionsTest, WhatIsNotUnderstoodIsRefusedByFileAndLine) {
  testing::ExpectRefused<std::string>(
      {{"nothing", "", {"x:2: there is no session"}},
       {"a set-up alone", "$ true\n", {"there is no session"}},
       {"a title without letters", "# …\n$ true", {"x:1: a title needs letters"}},
       {"two of a name", "# A b\n$ true\n\n# A  B\n$ true", {"x:4: a session above is called AB too"}},
       {"no step", "# A\n# B\n$ true", {"x:2: the session before this has no step"}},
       {"no step at the end", "# A\n$ true\n# B\nprose\n", {"the last session has no step"}},
       {"a need after a step", "# A\n$ true\n? true", {"x:3: \"? \" comes before the steps"}},
       {"more of no command", "# A\n> more", {"x:2: \"> \" goes on with a command"}},
       {"more after output", "# A\n$ true\nout\n> more", {"x:4: \"> \" goes on with a command"}},
       {"an exit code of prose", "# A\n$ true\n\n[2]", {"x:4: an exit code ends a step"}},
       {"output after the exit code", "# A\n$ true\n[2]\nmore", {"x:4: this step has ended"}},
       {"output after one line", "# A\n$ true => a\nmore", {"x:3: this step has ended"}},
       {"exit code 0", "# A\n$ true\n[0]", {"x:3: the exit code 0 is not written"}},
       {"a long line", "# A\n$ true\n" + std::string(121, 'a'), {"x:3: has more than 120 columns"}},
       {"bytes", "# A\n$ \xFF", {"x:2: is not UTF-8 text"}},
       {"a carriage return", "# A\n$ true\r\n", {"x:2: has a control character"}}},
      [](const std::string& text) { ParseSessions("x", text); }, ErrorKind::kData);
}

TEST(SessionsTest, AFileIsItsSetUpAndItsSessions) {
  const SessionFile file = ParseSessions(
      "x", "Prose.\n$ a\n\n# It's a b-c\nProse.\n$ cat <<E\n> one\n> E\none\n…\n[3]\n$ d\n\n# Second\n$ e\n" +
               std::string(60, '\t') + "…\n");
  ASSERT_EQ(file.sessions.size(), 2u);
  EXPECT_EQ(file.set_up.size(), 1u);
  EXPECT_EQ(file.sessions[0].name, "ItsABC");
  ASSERT_EQ(file.sessions[0].steps.size(), 2u);
  const SessionStep& step = file.sessions[0].steps[0];
  EXPECT_EQ(step.command, "cat <<E\none\nE");
  EXPECT_EQ(step.expected, (std::vector<std::string>{"one", "…", "[3]"}));
  EXPECT_EQ(step.line, 6u);
  EXPECT_EQ(step.first, 8u);
  EXPECT_EQ(step.end, 11u);
}

TEST(SessionsTest, AStepOfOneLineSaysItsExitCodeAndWords) {
  using Lines = std::vector<std::string>;
  const auto steps =
      ParseSessions("x", "# A\n$ a | b => [12] some <n>\n$ c\n> c => [2]\n$ d => [x] y\n$ e => …\n").sessions[0].steps;
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[0].command, "a | b");
  EXPECT_EQ(steps[0].expected, (Lines{"…", "…some <n>…", "…", "[12]"}));
  EXPECT_EQ(steps[1].expected, (Lines{"…", "[2]"}));
  EXPECT_EQ(steps[2].expected, (Lines{"…", "…[x] y…", "…"}));
  EXPECT_TRUE(Compare(steps[0].expected, {"x", "of some 7 y", "[12]"}).equal);
  EXPECT_FALSE(Compare(steps[0].expected, {"of some 7 y"}).equal);
  EXPECT_EQ(OneLine(steps[0], {"x", "of some 7 y", "[1]"}), "$ a | b => [1] of some 7 y");
  EXPECT_EQ(OneLine(steps[1], {"x"}), "> c => x");
  EXPECT_EQ(OneLine(steps[1], {"[1]"}), "> c => [1]");
}

TEST(SessionsTest, PatternsMatchNumbersAndAnyText) {
  for (const char* row : {"=", "a=a", "…=", "…=a", "a…c=abbc", "a…=a", "…b…=abc", "<n> s=1,234.5 s", "<n>=-1e-05",
                          "<n>.=3.", "<n>, x=3, x", "<n>=<n>", "x <n>e=x 2e"}) {
    const auto sides = Split(row, '=');
    EXPECT_TRUE(LineMatches(sides[0], sides[1])) << row;
  }
  for (const char* row : {"=a", "a=", "a=ab", "ab=a", "a…c=abcd", "<n>=", "<n>=x", "<n>=1x", "<n> s=-. s", "<n>=--1"}) {
    const auto sides = Split(row, '=');
    EXPECT_FALSE(LineMatches(sides[0], sides[1])) << row;
  }
}

TEST(SessionsTest, ADifferenceShowsWhatChangedAndKeepsPatterns) {
  using Lines = std::vector<std::string>;
  const auto compare = [](const Lines& expected, const Lines& lines) {
    const Comparison comparison = Compare(expected, lines);
    EXPECT_EQ(comparison.equal, comparison.difference.find("- ") == std::string::npos &&
                                    comparison.difference.find("+ ") == std::string::npos);
    EXPECT_TRUE(Compare(comparison.accepted, lines).equal) << comparison.difference;
    return comparison;
  };
  EXPECT_TRUE(compare({}, {}).equal);
  EXPECT_TRUE(compare({"…"}, {}).equal);
  EXPECT_TRUE(compare({"a", "…", "z <n>", "[2]"}, {"a", "b", "z 1", "z 2", "[2]"}).equal);
  EXPECT_FALSE(compare({"…", "[2]"}, {"a"}).equal);
  EXPECT_FALSE(compare({"…"}, {"a", "[2]"}).equal);
  EXPECT_FALSE(compare({"…", "a", "…"}, {"a", "[2]"}).equal);
  EXPECT_FALSE(compare({"…", "a"}, {"a", "[1]"}).equal);
  EXPECT_FALSE(compare({}, {"a"}).equal);
  EXPECT_FALSE(compare({"a"}, {}).equal);
  const Comparison changed = compare({"…", "error: old", "step <n>"}, {"a", "error: new", "step 2"});
  EXPECT_EQ(changed.difference, "  …\n- error: old\n+ error: new\n  step 2\n");
  EXPECT_EQ(changed.accepted, (Lines{"…", "error: new", "step <n>"}));
  EXPECT_EQ(compare({}, {"# a", "[2]", std::string(121, 'b'), "[2]"}).accepted,
            (Lines{"… a", "…2]", std::string(119, 'b') + "…", "[2]"}));
  EXPECT_EQ(LinesOf("a \n\n b\n", 3), (Lines{"a", " b", "[3]"}));
}

}  // namespace sessions_test
}  // namespace crosstalk
