// What a run folder goes through: starts at the same time, closed outputs, files that are lost or damaged, a folder
// that is moved. Nothing of a run is lost, and nothing is silent.
#include <gtest/gtest.h>

#include <string>

#include "crosstalk/runtime/json.h"
#include "tests/support/messages.h"
#include "tests/support/run_command.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace {

using testing::Contains;

CommandResult Resume(const std::string& run, const CommandOptions& options = {}) {
  return RunCommand({"train", "--out", run, "--resume", "auto", "--threads", "1"}, options);
}

TEST(TrainFolderTest, ClosedOutputsTakeNothingFromTheRun) {
  const TempDir dir;
  ASSERT_EQ(RunCommand(TinyTrain({"--out", dir / "whole"})).exit_code, 0);
  for (const std::vector<int>& closed : {std::vector<int>{1, 2}, {0, 1, 2}, {2}, {1}}) {
    const std::string run = dir / ("run-" + std::to_string(closed.size()) + std::to_string(closed[0]));
    ASSERT_EQ(RunCommand(TinyTrain({"--out", run}), {.closed = closed}).exit_code, 0);
    for (const char* name : {"model.safetensors", "lock"}) {
      EXPECT_TRUE(ReadBytes(run + "/" + name) == ReadBytes(dir / "whole/" + name)) << name;
    }
    std::istringstream lines(ReadBytes(run + "/metrics.jsonl"));
    int number = 0;
    for (std::string line; std::getline(lines, line); ++number) EXPECT_NO_THROW(ParseJson(line, "line")) << line;
    EXPECT_GT(number, 8);
    EXPECT_EQ(Resume(run, {.closed = closed}).exit_code, 0);
  }
}

TEST(TrainFolderTest, AResultForAClosedOutputIsAnError) {
  const TempDir dir;
  const std::string run = dir / "run";
  const CommandResult trained = RunCommand(TinyTrain({"--out", run, "--json"}), {.closed = {1}});
  EXPECT_EQ(trained.exit_code, 1);
  EXPECT_TRUE(Contains(trained.errors, "standard output: cannot write the result: it is closed")) << trained.errors;
  EXPECT_EQ(ReadBytes(run + "/lock"), "");
  EXPECT_EQ(RunCommand({"eval", "--run", run}, {.closed = {1}}).exit_code, 1);
  EXPECT_EQ(RunCommand({"eval", "--run", run}, {.closed = {0, 1, 2}}).exit_code, 1);
  EXPECT_EQ(RunCommand({"--version"}, {.output_to = "/dev/full"}).exit_code, 5);
}

}  // namespace
}  // namespace crosstalk
