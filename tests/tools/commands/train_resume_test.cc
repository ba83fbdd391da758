// What a run that is taken up again goes on from, what ends it with a checkpoint, and what is refused and left as it
// is.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/json.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace train_resume_test {

TEST(TrainResumeTest, ATerminatedRunHasACheckpointOfItsLastStep) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const TempDir dir;
    RunningCommand command(TinyTrain({"--steps", "100000", "--eval-every", "0", "--out", dir / "run"}));
    while (command.Running() && Snapshot(dir.path()).find("\"step\": 5,") == std::string::npos) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    command.Signal(signal);
    const CommandResult result = command.Wait();
    EXPECT_FALSE(result.signalled) << "the signal was not handled";
    const std::vector<Json> lines = ReadMetrics(dir / "run/metrics.jsonl");
    ASSERT_FALSE(lines.empty());
    const std::string step = lines.back().At("step").Dump();
    ExpectExit(result, 128 + signal, {"interrupted after step " + step, "--resume auto"});
    EXPECT_TRUE(std::filesystem::exists(dir / ("run/checkpoints/step-" + std::string(8 - step.size(), '0') + step)));
    EXPECT_FALSE(std::filesystem::exists(dir / "run/model.safetensors"));
  }
}

// A finished run of 8 steps whose last two checkpoints, of steps 6 and 8, are there.
void MakeFinishedRun(const std::string& run) { Succeeded(RunCommand(TinyTrain({"--out", run}))); }

TEST(TrainResumeTest, ADamagedCheckpointIsSkippedWithItsReason) {
  const TempDir dir;
  MakeFinishedRun(dir / "whole");
  const std::string model = ReadBytes(dir / "whole/model.safetensors");
  int variant = 0;
  for (const char* name :
       {"model.safetensors", "optimizer.safetensors", "state.json", "config.json", "manifest.json", "tokenizer.json"}) {
    for (const bool truncate : {false, true}) {
      const std::string run = dir / ("run-" + std::to_string(variant++));
      std::filesystem::copy(dir / "whole", run, std::filesystem::copy_options::recursive);
      std::filesystem::remove(run + "/model.safetensors");
      const std::string path = run + "/checkpoints/step-00000008/" + name;
      std::string bytes = ReadBytes(path);
      ASSERT_FALSE(bytes.empty()) << path;
      if (truncate) {
        bytes.resize(bytes.size() / 2);
      } else {
        bytes[bytes.size() / 2] ^= 0x10;
      }
      WriteBytes(path, bytes);
      ExpectExit(RunCommand({"eval", "--run", run}), 0, {"skipped a damaged checkpoint"});
      ExpectExit(RunCommand({"train", "--out", run, "--resume", "auto", "--threads", "1"}), 0,
                 {"skipped a damaged checkpoint", name, "resuming after step 6"});
      EXPECT_TRUE(ReadBytes(run + "/model.safetensors") == model) << name;
      // Named, it is refused.
      WriteBytes(path, bytes);
      ExpectExit(
          RunCommand({"train", "--out", dir / "new", "--resume", run + "/checkpoints/step-00000008", "--threads", "1"}),
          3, {name});
      EXPECT_FALSE(std::filesystem::exists(dir / "new"));
    }
  }
}

TEST(TrainResumeTest, WhereNoCheckpointIsGoodNothingIsOverwritten) {
  const TempDir dir;
  MakeFinishedRun(dir / "run");
  for (const auto& entry : std::filesystem::directory_iterator(dir / "run/checkpoints")) {
    WriteBytes(entry.path().string() + "/model.safetensors", "short");
  }
  const std::string before = Snapshot(dir / "run");
  ExpectExit(RunCommand({"train", "--out", dir / "run", "--resume", "auto"}), 3, {"model.safetensors"});
  EXPECT_TRUE(Snapshot(dir / "run") == before);
}

TEST(TrainResumeTest, AnotherConfigurationIsRefusedByItsFields) {
  const TempDir dir;
  MakeFinishedRun(dir / "run");
  const std::string before = Snapshot(dir / "run");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--d-model", "32"}, "d_model: 32 here, 16 there"},
      {{"--seed", "9"}, "seed: 9 here, 1 there"},
      {{"--attention", "multihead"}, "attention: \"multihead\" here, \"talking\" there"},
      {{"--implementation", "composed"}, "implementation: \"composed\" here, \"fused\" there"},
      {{"--precision", "bf16"}, "precision: \"bf16\" here, \"fp32\" there"},
      {{"--continued-at", "4"}, "continued_at: \"4\" here, \"\" there"},
      {{"--init-from", dir / "run"}, "--init-from: weights"},
      {{"--frozen", "encoder"}, "frozen: \"encoder\" here, \"\" there"},
      {{"--tokenizer", "sentencepiece"}, "tokenizer"},
  };
  for (const auto& [options, says] : cases) {
    for (const std::string& resume : {std::string("auto"), dir / "run/checkpoints/step-00000008"}) {
      ExpectExit(RunCommand(Joined({"train", "--out", dir / "run", "--resume", resume, "--threads", "1"}, options)), 3,
                 {says});
      EXPECT_TRUE(Snapshot(dir / "run") == before) << says;
    }
  }
}

TEST(TrainResumeTest, AForeignCheckpointIsRefused) {
  const TempDir dir;
  MakeFinishedRun(dir / "run");
  Succeeded(RunCommand(TinyTrain({"--out", dir / "other", "--d-ff", "40", "--steps", "9"})));
  std::filesystem::rename(dir / "other/checkpoints/step-00000009", dir / "run/checkpoints/step-00000009");
  const std::string before = Snapshot(dir / "run");
  ExpectExit(RunCommand({"train", "--out", dir / "run", "--resume", "auto"}), 3, {"d_ff: 24 here, 40 there"});
  EXPECT_TRUE(Snapshot(dir / "run") == before);
}

TEST(TrainResumeTest, AnExistingRunIsNotOverwritten) {
  const TempDir dir;
  MakeFinishedRun(dir / "run");
  const std::string before = Snapshot(dir / "run");
  ExpectExit(RunCommand(TinyTrain({"--out", dir / "run"})), 2, {"--resume auto"});
  EXPECT_TRUE(Snapshot(dir / "run") == before);
  // Nor is a folder of something else.
  WriteBytes(dir / "letter.txt", "Dear reader");
  ExpectExit(RunCommand(TinyTrain({"--out", dir.path()})), 2);
}

TEST(TrainResumeTest, TwoProcessesDoNotShareARunFolder) {
  const TempDir dir;
  RunningCommand first(TinyTrain({"--steps", "100000", "--eval-every", "0", "--out", dir / "run"}));
  while (first.Running() && !std::filesystem::exists(dir / "run/metrics.jsonl")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ExpectExit(RunCommand({"train", "--out", dir / "run", "--resume", "auto"}), 2, {"another process"});
}

}  // namespace train_resume_test
}  // namespace crosstalk
