// What a run folder goes through: starts at the same time, closed outputs, files that are lost or damaged, a folder
// that is moved. Nothing of a run is lost, and nothing is silent.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/runtime/json.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace train_folder_test {

using testing::Contains;

namespace fs = std::filesystem;

// While it lives, commands start in this folder.
class CurrentPath {
 public:
  explicit CurrentPath(const std::string& path) : before_(fs::current_path()) { fs::current_path(path); }
  ~CurrentPath() { fs::current_path(before_); }

 private:
  fs::path before_;
};

std::vector<CommandResult> RunAtOnce(const std::vector<std::vector<std::string>>& commands) {
  std::vector<std::unique_ptr<RunningCommand>> running;
  for (const auto& command : commands) running.push_back(std::make_unique<RunningCommand>(command));
  std::vector<CommandResult> results;
  for (const auto& command : running) results.push_back(command->Wait());
  return results;
}

std::vector<std::string> Names(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// A finished run of 8 steps with checkpoints of steps 6 and 8.
void MakeFinishedRun(const std::string& run) { Succeeded(RunCommand(TinyTrain({"--out", run}))); }

CommandResult Resume(const std::string& run, const CommandOptions& options = {}) {
  return RunCommand({"train", "--out", run, "--resume", "auto", "--threads", "1"}, options);
}

// As if the run had been killed after step 6.
void Cut(const std::string& run) {
  fs::remove_all(run + "/checkpoints/step-00000008");
  fs::remove(run + "/model.safetensors");
}

TEST(TrainFolderTest, OfSimultaneousStartsEachGetsItsOwnFolder) {
  const TempDir dir;
  const CurrentPath here(dir.path());
  std::vector<std::vector<std::string>> commands;
  for (const char* steps : {"3", "4", "5", "6"}) commands.push_back(TinyTrain({"--steps", steps, "--json"}));
  std::set<std::string> runs;
  int64_t steps = 3;
  for (const CommandResult& result : RunAtOnce(commands)) {
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    const std::string run = ParseJson(result.output, "output").At("run").AsString();
    EXPECT_TRUE(runs.insert(run).second) << run;
    EXPECT_EQ(ParseJson(ReadBytes(run + "/run.json"), run).At("configuration").At("steps").AsInt(), steps);
    EXPECT_TRUE(fs::exists(run + "/checkpoints/step-0000000" + std::to_string(steps))) << run;
    EXPECT_TRUE(fs::exists(run + "/model.safetensors")) << run;
    ++steps;
  }
  EXPECT_EQ(Names(dir / "runs"),
            (std::vector<std::string>{"t5-talking-1", "t5-talking-2", "t5-talking-3", "t5-talking-4"}));
}

TEST(TrainFolderTest, OfSimultaneousStartsInOneFolderOneTrains) {
  const TempDir dir;
  // The one that trains a tokenizer is at it when the others could be done.
  std::vector<std::vector<std::string>> commands = {TinyTrain(
      {"--out", dir / "run", "--steps", "2", "--tokenizer", "sentencepiece", "--vocabulary", "2000", "--json"})};
  for (const char* steps : {"3", "4", "5"}) {
    commands.push_back(TinyTrain({"--out", dir / "run", "--steps", steps, "--json"}));
  }
  int trained = 0;
  for (const CommandResult& result : RunAtOnce(commands)) {
    if (result.exit_code == 0) {
      ++trained;
      const Json configuration = ParseJson(ReadBytes(dir / "run/run.json"), "run.json").At("configuration");
      EXPECT_EQ(configuration.At("steps"), ParseJson(result.output, "output").At("step"));
    } else {
      EXPECT_EQ(result.exit_code, 2) << result.errors;
    }
  }
  EXPECT_EQ(trained, 1);
}

TEST(TrainFolderTest, AStartThatFailsLeavesNothing) {
  const TempDir dir;
  const CurrentPath here(dir.path());
  WriteBytes(dir / "text.txt", "too short");
  for (const std::vector<std::string>& out : {std::vector<std::string>{}, {"--out", dir / "runs/mine"}}) {
    ExpectExit(RunCommand(TinyTrain(Joined({"--data", dir / "text.txt"}, out))), 3);
    EXPECT_TRUE(Names(dir / "runs").empty());
  }
}

TEST(TrainFolderTest, ClosedOutputsTakeNothingFromTheRun) {
  const TempDir dir;
  Succeeded(RunCommand(TinyTrain({"--out", dir / "whole"})));
  for (const std::vector<int>& closed : {std::vector<int>{1, 2}, {0, 1, 2}, {2}, {1}}) {
    const std::string run = dir / ("run-" + std::to_string(closed.size()) + std::to_string(closed[0]));
    Succeeded(RunCommand(TinyTrain({"--out", run}), {.closed = closed}));
    for (const char* name : {"model.safetensors", "lock"}) {
      EXPECT_TRUE(ReadBytes(run + "/" + name) == ReadBytes(dir / "whole/" + name)) << name;
    }
    std::istringstream lines(ReadBytes(run + "/metrics.jsonl"));
    int number = 0;
    for (std::string line; std::getline(lines, line); ++number) EXPECT_NO_THROW(ParseJson(line, "line")) << line;
    EXPECT_GT(number, 8);
    Succeeded(Resume(run, {.closed = closed}));
  }
}

TEST(TrainFolderTest, AResultForAClosedOutputIsAnError) {
  const TempDir dir;
  const std::string run = dir / "run";
  ExpectExit(RunCommand(TinyTrain({"--out", run, "--json"}), {.closed = {1}}), 1,
             {"standard output: cannot write the result: it is closed"});
  EXPECT_EQ(ReadBytes(run + "/lock"), "");
  EXPECT_EQ(RunCommand({"eval", "--run", run}, {.closed = {1}}).exit_code, 1);
  EXPECT_EQ(RunCommand({"eval", "--run", run}, {.closed = {0, 1, 2}}).exit_code, 1);
  EXPECT_EQ(RunCommand({"--version"}, {.output_to = "/dev/full"}).exit_code, 5);
}

// Whatever is at the path then is not written to. RunLockTest has the other ways to go.
TEST(TrainFolderTest, AFolderThatGoesAwayWhileTrainingIsAnError) {
  const TempDir dir;
  RunningCommand command(TinyTrain({"--steps", "20000", "--eval-every", "0", "--out", dir / "run"}));
  while (command.Running() && !Contains(ReadBytes(dir / "run/metrics.jsonl"), "\"step\": 5,")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  fs::rename(dir / "run", dir / "elsewhere");
  fs::create_directory(dir / "run");
  ExpectExit(command.Wait(), 1, {dir / "run: it or its lock was moved, removed or replaced"});
  EXPECT_TRUE(Names(dir / "run").empty());
}

TEST(TrainFolderTest, ARunGoesOnWithoutItsRunFile) {
  const TempDir dir;
  const std::string run = dir / "run";
  MakeFinishedRun(run);
  const std::string model = ReadBytes(run + "/model.safetensors");
  const Json before = ParseJson(ReadBytes(run + "/run.json"), "run.json");
  Cut(run);
  WriteBytes(run + "/run.json", "{\"format\": ");
  ExpectExit(Resume(run), 3, {"moved away, the run goes on from its checkpoints"});
  fs::remove(run + "/run.json");
  Succeeded(RunCommand({"eval", "--run", run}));
  ExpectExit(RunCommand(TinyTrain({"--out", run})), 2, {"holds a run already"});
  ExpectExit(RunCommand({"train", "--out", run, "--resume", "auto", "--d-ff", "40"}), 3);
  EXPECT_FALSE(fs::exists(run + "/run.json"));
  ExpectExit(Resume(run), 0, {run + "/run.json: missing", "resuming after step 6"});
  EXPECT_TRUE(ReadBytes(run + "/model.safetensors") == model);
  const Json after = ParseJson(ReadBytes(run + "/run.json"), "run.json");
  for (const char* key : {"configuration", "model", "data_fingerprint", "parameters"}) {
    EXPECT_EQ(after.At(key), before.At(key)) << key;
  }
  EXPECT_EQ(after.At("sessions").AsArray().size(), 1u);
}

TEST(TrainFolderTest, ARunFileOfNoSessionsIsGoneOnWith) {
  const TempDir dir;
  const std::string run = dir / "run";
  MakeFinishedRun(run);
  Cut(run);
  const Json before = ParseJson(ReadBytes(run + "/run.json"), "run.json");
  for (const char* damaged : {"7", "[7]", "[{}]", R"([{"simd_target": 7}])"}) {
    WriteBytes(run + "/run.json", Json(before).Set("sessions", ParseJson(damaged, "sessions")).DumpPretty());
    ExpectExit(Resume(run), 3, {"run.json: sessions"});
  }
  WriteBytes(run + "/run.json", Json(before).Set("sessions", Json::MakeArray()).DumpPretty());
  Succeeded(Resume(run));
  EXPECT_EQ(ParseJson(ReadBytes(run + "/run.json"), "run.json").At("sessions").AsArray().size(), 1u);
}

TEST(TrainFolderTest, ADamagedLineOfTheMetricsStopsNothing) {
  const TempDir dir;
  const std::string run = dir / "run";
  MakeFinishedRun(run);
  const std::string metrics = ReadBytes(run + "/metrics.jsonl");
  const size_t second = metrics.find('\n') + 1;
  const std::string damaged = metrics.substr(0, second) + "\xff\x01{" + metrics.substr(second);
  int number = 0;
  for (const bool cut : {false, true}) {
    WriteBytes(run + "/metrics.jsonl", damaged);
    if (cut) Cut(run);
    const CommandResult result = ExpectExit(Resume(run), 0, {"metrics.jsonl: line 2: "});
    const std::string kept = run + "/metrics.jsonl.damaged-" + std::to_string(++number);
    EXPECT_TRUE(Contains(result.errors, kept)) << result.errors;
    EXPECT_TRUE(ReadBytes(kept) == damaged);
  }
  EXPECT_TRUE(fs::exists(run + "/model.safetensors"));
}

// Of a comparison the result of each run counts, which was kept at its end; without it, what the run's lines say.
TEST(TrainFolderTest, ARunOfAComparisonThatLostItsLinesIsSaid) {
  const TempDir dir;
  std::vector<std::string> compare = TinyTrain({"--out", dir / "c", "--seeds", "1", "--kinds", "talking"});
  compare[0] = "compare";
  Succeeded(RunCommand(compare));
  const std::string cell = dir / "c/cells/attention-talking/seed-1", metrics = cell + "/pretraining/metrics.jsonl";
  const std::string table = ReadBytes(dir / "c/table.json"), lines = ReadBytes(metrics);
  WriteBytes(metrics, "");
  Succeeded(RunCommand(compare));
  EXPECT_EQ(ReadBytes(dir / "c/table.json"), table);
  const auto table_of = [&](const std::string& of_lines) {
    fs::remove(cell + "/result.json");
    WriteBytes(metrics, of_lines);
    Succeeded(RunCommand(compare));
    return ParseJson(ReadBytes(dir / "c/table.json"), "table.json");
  };
  const Json lost = table_of("");
  ASSERT_EQ(lost.At("missing").AsArray().size(), 1u);
  EXPECT_TRUE(Contains(lost.At("missing").AsArray()[0].At("reason").AsString(), "no measure of step 8"));
  // Without a line of a step the step time is not known, and the rest of the table is.
  const Json untimed = table_of(lines.substr(lines.rfind("{\"event\": \"eval\"")));
  EXPECT_TRUE(untimed.At("rows").AsArray()[0].At("step_seconds").is_null());
  EXPECT_EQ(untimed.At("rows").AsArray()[0].At("seeds").AsInt(), 1);
}

TEST(TrainFolderTest, TheNextSessionClearsWhatKillsHaveLeft) {
  const TempDir dir;
  const std::string run = dir / "run";
  MakeFinishedRun(run);
  const std::vector<std::string> names = Names(run), checkpoints = Names(run + "/checkpoints");
  for (const char* name : {".run.json.tmp-12-3", ".metrics.jsonl.tmp-12-4", ".model.safetensors.tmp-12-5",
                           ".tokenizer.json.tmp-12-6", "checkpoints/.step-00000008.tmp-12-7"}) {
    WriteBytes(run + "/" + name, "half");
  }
  Succeeded(Resume(run));
  EXPECT_EQ(Names(run), names);
  EXPECT_EQ(Names(run + "/checkpoints"), checkpoints);
}

TEST(TrainFolderTest, ResumingWhereThereIsNoRunIsAnError) {
  const TempDir dir;
  const CommandResult none = ExpectExit(RunCommand(TinyTrain({"--out", dir / "none", "--resume", "auto"})), 2,
                                        {"there is no run in --out " + (dir / "none")});
  ExpectExit(RunCommand(TinyTrain({"--resume", dir / "none"})), 2, {dir / "none: there is no run or checkpoint"});
  EXPECT_TRUE(Names(dir.path()).empty());
}

// What a job scheduler does: the same command until the run is at its end.
TEST(TrainFolderTest, ACommandThatIsRepeatedBeginsOnceAndGoesOn) {
  const TempDir dir;
  Succeeded(RunCommand(TinyTrain({"--out", dir / "origin"})));
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--init-from", dir / "origin"}}) {
    const std::string name = more.empty() ? "run" : "begun";
    const std::string says = StrCat("there is no run in ", dir / name, ": a new one begins\n");
    const std::vector<std::string> command = TinyTrain(
        Joined({"--steps", "400", "--resume", "if-any", "--checkpoint-every", "50", "--out", dir / name}, more));
    RunningCommand first(command);
    while (first.Running() && CheckpointStore(dir / (name + "/checkpoints")).Steps().size() < 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    first.Signal(SIGKILL);
    EXPECT_TRUE(Contains(first.Wait().errors, says));
    const CommandResult second = ExpectExit(RunCommand(command), 0, {"finished: 400 steps"});
    EXPECT_FALSE(Contains(second.errors, "a new one begins")) << second.errors;
    EXPECT_GE(ParseJson(ReadBytes(dir / (name + "/run.json")), "run").At("sessions").AsArray().size(), 2u);
    const CommandResult third = ExpectExit(RunCommand(command), 0, {"finished: 400 steps"});
    std::vector<std::string> whole = command;
    whole.insert(whole.end(), {"--out", dir / (name + "-whole")});
    whole.erase(std::find(whole.begin(), whole.end(), "--out"), std::find(whole.begin(), whole.end(), "--out") + 2);
    Succeeded(RunCommand(whole));
    EXPECT_EQ(ReadBytes(dir / (name + "/model.safetensors")), ReadBytes(dir / (name + "-whole/model.safetensors")));
  }
  ExpectExit(RunCommand(TinyTrain({"--resume", "if-any"})), 2, {"--resume if-any needs --out RUN"});
}

// A checkpoint is gone at almost every look: the one that is then the newest is measured.
TEST(TrainFolderTest, ARunIsMeasuredWhileItsTrainingRemovesCheckpoints) {
  const TempDir dir;
  RunningCommand training(TinyTrain(
      {"--steps", "100000", "--eval-every", "0", "--checkpoint-every", "1", "--keep", "1", "--out", dir / "run"}));
  // Any of them: on a busy machine one may come and go between two looks.
  const CheckpointStore checkpoints(dir / "run/checkpoints");
  for (std::vector<int64_t> steps; training.Running() && (steps.empty() || steps.back() < 5);) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    steps = checkpoints.Steps();
  }
  for (int i = 0; i < 12; ++i) {
    const CommandResult result = Succeeded(RunCommand({"eval", "--run", dir / "run", "--threads", "1"}));
    EXPECT_FALSE(Contains(result.errors, "skipped")) << result.errors;
  }
  EXPECT_TRUE(training.Running());
}

}  // namespace train_folder_test
}  // namespace crosstalk
