// What `make` takes from its command line: each variable is its own, or becomes an option of the command, with any
// value; nothing is dropped without a word.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/shell.h"

namespace variables_test {

namespace fs = std::filesystem;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// What `VARIABLES make ARGUMENTS` prints, without what the make that runs this test was given.
std::string Make(const std::string& arguments, const std::string& variables = "") {
  return crosstalk::RunShell("cd \"$CROSSTALK_SOURCE\" && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL " + variables +
                             " make CROSSTALK_SETUP_DONE=1 " + arguments)
      .output;
}

// The last line that `make -n` would run; `arguments` are words of a shell.
std::string LastLine(const std::string& arguments, const std::string& variables = "") {
  std::string output = Make("-n BUILD=\"$CROSSTALK_BUILD\" " + arguments, variables);
  while (!output.empty() && output.back() == '\n') output.pop_back();
  return output.substr(output.rfind('\n') + 1);
}

class MakeVariablesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Environment("CROSSTALK_SOURCE").empty() || Environment("CROSSTALK_BUILD").empty()) {
      GTEST_SKIP() << "run by `make test`, which says where the sources are";
    }
  }
};

TEST_F(MakeVariablesTest, WithoutVariablesThereAreNoOptions) {
  for (const std::string command : {"train", "eval", "generate", "finetune", "compare", "reproduce"}) {
    const std::string line = LastLine(command);
    EXPECT_NE(line.find("/crosstalk " + command), std::string::npos) << line;
    EXPECT_EQ(line.find("--"), std::string::npos) << line;
  }
}

TEST_F(MakeVariablesTest, EachBecomesItsOption) {
  const std::string line = LastLine(
      "train DATA=d ATTENTION=dynamic HEADS=2 STEPS=3 D_MODEL=4 LAYERS=5 BATCH=6 SEED=7 THREADS=8 TOKENIZER=bytes "
      "OUT=o LEARNING_RATE=0.1 CHECKPOINT_EVERY=9 "
      "ARGS='--dry-run --json'");
  for (const std::string option :
       {"--data 'd'", "--attention 'dynamic'", "--heads '2'", "--steps '3'", "--d-model '4'", "--layers '5'",
        "--batch '6'", "--seed '7'", "--threads '8'", "--tokenizer 'bytes'", "--out 'o'", "--learning-rate '0.1'",
        "--checkpoint-every '9'", "--dry-run --json"}) {
    EXPECT_NE(line.find(option), std::string::npos) << option << " in " << line;
  }
  const std::string generate = LastLine("generate RUN=r \"TEXT=It's\" MAX_LENGTH=9");
  EXPECT_NE(generate.find("generate --max-length '9' --run 'r' --text 'It'\\''s'"), std::string::npos) << generate;
}

// DATA=$(TEXTS) with nothing in TEXTS must not train on something else: the command refuses the empty value.
TEST_F(MakeVariablesTest, EachGoalThatStartsTheCommandTakesItsOptions) {
  for (const auto& [goal, option] :
       {std::pair("train SEED=3", "--seed '3'"), std::pair("eval RUN=r", "--run 'r'"),
        std::pair("generate RUN=r", "--run 'r'"), std::pair("finetune FROM=r", "--from 'r'"),
        std::pair("compare SEEDS=3", "--seeds '3'"),
        std::pair("compare VARY=learning_rate=0.1,0.2 LAYERS=3", "--layers '3' --vary 'learning_rate=0.1,0.2'"),
        std::pair("reproduce TABLE=3", "--table '3'")}) {
    EXPECT_NE(LastLine(goal).find(option), std::string::npos) << goal << ": " << LastLine(goal);
  }
}

TEST_F(MakeVariablesTest, AnEmptyOneIsGivenAsItIs) {
  EXPECT_NE(LastLine("train DATA= STEPS=3").find("--data '' --steps '3'"), std::string::npos);
}

TEST_F(MakeVariablesTest, AValueMayHoldSpacesAndQuotes) {
  EXPECT_NE(LastLine("train \"DATA=my folder/it's.txt\"").find("--data 'my folder/it'\\''s.txt'"), std::string::npos);
  EXPECT_NE(LastLine("eval 'RUN=a;b\"c`d`'").find("--run 'a;b\"c`d`'"), std::string::npos);
}

TEST_F(MakeVariablesTest, TheEnvironmentIsNotTaken) {
  const std::string line = LastLine("train", "DATA=d BATCH=6 ARGS=--dry-run BUILD=elsewhere SANITIZE=address");
  EXPECT_EQ(line.find("--"), std::string::npos) << line;
  EXPECT_EQ(line.find("elsewhere"), std::string::npos) << line;
}

TEST_F(MakeVariablesTest, OneThatTheGoalDoesNotReadIsAnErrorWithTheNearestName) {
  EXPECT_NE(Make("-n all D_MODLE=64").find("make all: nothing reads the variable D_MODLE"), std::string::npos);
  EXPECT_NE(Make("-n test TEST_JOB=4").find("nothing reads the variable TEST_JOB; did you mean TEST_JOBS?"),
            std::string::npos);
  EXPECT_NE(Make("-n install ARGS=--help").find("nothing reads the variable ARGS"), std::string::npos);
}

TEST_F(MakeVariablesTest, FuzzTakesATargetAndATimeAndNothingElseDoes) {
  EXPECT_NE(LastLine("fuzz TARGET=json SECONDS=5").find("-fuzz 5 json"), std::string::npos);
  EXPECT_NE(LastLine("fuzz", "TARGET=json SECONDS=5").find("-fuzz 60 c_interface command_line config "),
            std::string::npos);
  EXPECT_NE(Make("-n fuzz TARGT=json").find("nothing reads the variable TARGT; did you mean TARGET?"),
            std::string::npos);
  EXPECT_NE(Make("-n test TARGET=json").find("nothing reads the variable TARGET"), std::string::npos);
}

TEST_F(MakeVariablesTest, OneThatIsNoOptionOfTheCommandIsAnErrorWithTheNearestName) {
  // As after `make`: the command is there, and is not made again with other flags (-o). --help: nothing is trained,
  // whatever happens.
  std::string build = Environment("CROSSTALK_BUILD");
  const std::string source = Environment("CROSSTALK_SOURCE") + "/";
  if (build.rfind(source, 0) == 0) build = build.substr(source.size());
  const std::string options = "BUILD=\"$CROSSTALK_BUILD\" -o '" + build + "/crosstalk' ARGS=--help ";
  EXPECT_NE(Make(options + "train LEARNING_RATE=0.1").find("Usage: crosstalk train"), std::string::npos);
  // --out has a second name, -o.
  EXPECT_NE(Make(options + "trace OUT=trace.html").find("Usage: crosstalk trace"), std::string::npos);
  for (const auto& [arguments, message] :
       {std::pair("train LEARNING_RATE=0.1 D_MODLE=64",
                  "make train: nothing reads the variable D_MODLE; did you mean D_MODEL?"),
        std::pair("train BULD=x", "make train: nothing reads the variable BULD; did you mean BUILD?"),
        std::pair("train heads=4", "make train: nothing reads the variable heads; did you mean HEADS?"),
        std::pair("compare SEED=1", "make compare: nothing reads the variable SEED; did you mean SEEDS?"),
        std::pair("eval D_MODEL=64", "make eval: nothing reads the variable D_MODEL"),
        std::pair("bench-scaling STEPS=3", "make bench-scaling: nothing reads the variable STEPS"),
        std::pair("train DRY_RUN=1", "make train: DRY_RUN is an option without a value: ARGS=--dry-run")}) {
    const std::string output = Make(options + arguments);
    EXPECT_NE(output.find(message), std::string::npos) << arguments << ": " << output;
    EXPECT_EQ(output.find("Usage:"), std::string::npos) << arguments << ": " << output;
  }
}

TEST_F(MakeVariablesTest, AFolderThatMakeCannotBuildInIsSaidInOneLine) {
  for (const std::string folder : {"other dir", ""}) {
    const std::string output = Make("-n all BUILD='" + folder + "'");
    EXPECT_NE(output.find("BUILD='" + folder + "': make cannot build into"), std::string::npos) << output;
    EXPECT_EQ(output.find('\n'), output.size() - 1) << output;
  }
}

TEST_F(MakeVariablesTest, AnUpToDateTreeHasNothingToDo) {
  // With what this make was given: other flags would be something to do.
  const std::string output =
      crosstalk::RunShell("make -C \"$CROSSTALK_SOURCE\" -n BUILD=\"$CROSSTALK_BUILD\" all").output;
  EXPECT_NE(output.find("Nothing to be done for 'all'"), std::string::npos) << output.substr(0, 1000);
}

TEST_F(MakeVariablesTest, ObjectsOfExamplesAreKept) {
  const fs::path empty = fs::temp_directory_path() / "crosstalk-no-such-build";
  const std::string output =
      Make("-n BUILD='" + empty.string() + "' '" + (empty / "examples/whole_stack").string() + "'");
  EXPECT_NE(output.find("whole_stack.o"), std::string::npos) << output;
  EXPECT_EQ(output.find("\nrm " + empty.string()), std::string::npos) << output;
}

// Of one commit the same bytes, whenever; of sources without their history an error that says so.
TEST_F(MakeVariablesTest, AnArchiveDependsOnTheCommitAlone) {
  const fs::path build = fs::temp_directory_path() / ("crosstalk-dist-" + std::to_string(getpid()));
  const std::string first = Make("dist BUILD='" + build.string() + "'");
  if (crosstalk::RunShell("git -C \"$CROSSTALK_SOURCE\" ls-tree --name-only HEAD | grep -x Makefile").output ==
      "Makefile\n") {
    EXPECT_NE(first.find(".tar.gz\n"), std::string::npos) << first;
    EXPECT_EQ(first, Make("dist BUILD='" + build.string() + "'"));
    const std::string names = crosstalk::RunShell("tar tzf '" + build.string() + "'/crosstalk-*.tar.gz").output;
    for (const char* name : {"/Makefile\n", "/README.md\n", "/examples/shakespeare/training.txt\n"}) {
      EXPECT_NE(names.find(name), std::string::npos) << name;
    }
  } else {
    EXPECT_NE(first.find("this is no git clone"), std::string::npos) << first;
  }
  fs::remove_all(build);
}

}  // namespace variables_test
