// What stops a training run: data that cannot be used, numbers that are not finite, memory and disk that run out. Each
// has its exit code, says what it is about, and leaves what is on the disk as it was.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "crosstalk/runtime/json.h"
#include "tests/support/messages.h"
#include "tests/support/run_command.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace train_errors_test {

using testing::Contains;

std::string LongText() {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "Line " + std::to_string(i) + " of a text that is long enough.\n\n";
  return text;
}

TEST(TrainErrorsTest, DataThatCannotBeUsedIsRefusedByFileAndByte) {
  const TempDir dir;
  std::string invalid = LongText();
  invalid[5000] = '\xff';
  std::string binary = LongText();
  binary[6000] = '\0';
  WriteBytes(dir / "invalid.txt", invalid);
  WriteBytes(dir / "binary.txt", binary);
  WriteBytes(dir / "empty.txt", "");
  WriteBytes(dir / "short.txt", "Too short.");
  WriteBytes(dir / "bad.jsonl", "{\"text\": \"fine\"}\n{\"words\": 3}\n");
  std::filesystem::create_directory(dir / "nothing");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"missing.txt", "missing.txt"}, {"invalid.txt", "5000"}, {"binary.txt", "6000"}, {"empty.txt", "empty"},
      {"short.txt", "short"},         {"bad.jsonl", "2"},      {"nothing", "nothing"},
  };
  for (const auto& [name, says] : cases) {
    const CommandResult result = RunCommand(TinyTrain({"--data", dir / name, "--out", dir / "run"}));
    EXPECT_EQ(result.exit_code, 3) << name << "\n" << result.errors;
    EXPECT_TRUE(Contains(result.errors, name) && Contains(result.errors, says)) << name << "\n" << result.errors;
    EXPECT_FALSE(std::filesystem::exists(dir / "run")) << name;
  }
}

TEST(TrainErrorsTest, APipeIsRefusedInsteadOfWaitedFor) {
  const TempDir dir;
  ASSERT_EQ(mkfifo((dir / "pipe.txt").c_str(), 0600), 0);
  const CommandResult result = RunCommand(TinyTrain({"--data", dir / "pipe.txt", "--out", dir / "run"}));
  EXPECT_EQ(result.exit_code, 3) << result.errors;
  EXPECT_TRUE(Contains(result.errors, "pipe.txt: is not a regular file")) << result.errors;
}

TEST(TrainErrorsTest, ATokenizerFileThatIsNotOneIsRefused) {
  const TempDir dir;
  WriteBytes(dir / "t.model", "no model at all");
  for (const std::string& path : {dir / "t.model", dir / "missing.model"}) {
    const CommandResult result = RunCommand(TinyTrain({"--tokenizer", path, "--out", dir / "run"}));
    EXPECT_EQ(result.exit_code, 3) << result.errors;
    EXPECT_TRUE(Contains(result.errors, path)) << result.errors;
  }
}

TEST(TrainErrorsTest, ALossThatIsNotFiniteNamesTheLayerAndTheLastCheckpointStands) {
  const TempDir dir;
  struct Case {
    const char* optimizer;
    const char* learning_rate;
    const char* says;
  };
  for (const auto& [optimizer, learning_rate, says] :
       {Case{"adamw", "1e5", "the gradient is not finite; no update was made. The sum of its squares overflows."},
        Case{"adamw", "1e6", "the gradient is not finite; no update was made. It began here: decoder.block_0"},
        Case{"adafactor", "1e19", "the loss is not finite; no update was made. It began here: encoder.block_0"}}) {
    const std::string run = dir / learning_rate;
    const CommandResult result =
        RunCommand(TinyTrain({"--out", run, "--optimizer", optimizer, "--schedule", "linear", "--warmup", "1",
                              "--learning-rate", learning_rate, "--steps", "1000", "--checkpoint-every", "1"}));
    EXPECT_EQ(result.exit_code, 4) << result.errors;
    EXPECT_TRUE(Contains(result.errors, says)) << result.errors;
    EXPECT_TRUE(Contains(result.errors, "Try a smaller --learning-rate, a longer --warmup, or --clip 1."))
        << result.errors;
    EXPECT_FALSE(std::filesystem::exists(run + "/model.safetensors"));
    // Its last checkpoint is of the last step that was made, and good: going on from it fails at the same step.
    const std::string checkpoints = Snapshot(run + "/checkpoints");
    const CommandResult again = RunCommand({"train", "--out", run, "--resume", "auto", "--threads", "1"});
    EXPECT_EQ(again.exit_code, 4) << again.errors;
    EXPECT_TRUE(Contains(again.errors, says)) << again.errors;
    EXPECT_TRUE(Snapshot(run + "/checkpoints") == checkpoints);
  }
}

TEST(TrainErrorsTest, AModelThatCannotFitIsRefusedBeforeItIsBuilt) {
  // 10 TB; and more than addresses of 47 bits reach.
  for (const auto& [d_model, says] :
       {std::pair{"131072", " MB"}, {"4194304", "more memory than a process can address"}}) {
    const TempDir dir;
    const CommandResult result =
        RunCommand(TinyTrain({"--d-model", d_model, "--d-ff", "524288", "--layers", "8", "--out", dir / "run"}));
    EXPECT_EQ(result.exit_code, 5) << result.errors;
    EXPECT_TRUE(Contains(result.errors, says)) << result.errors;
    EXPECT_FALSE(std::filesystem::exists(dir / "run"));
  }
}

TEST(TrainErrorsTest, AFolderThatCannotBeMadeNamesTheOption) {
  const CommandResult result = RunCommand(TinyTrain({"--out", "/proc/none/run"}));
  EXPECT_EQ(result.exit_code, 1) << result.errors;
  EXPECT_TRUE(Contains(result.errors, "error: --out: /proc/none: cannot create the directory: ")) << result.errors;
  EXPECT_TRUE(Contains(result.errors, "; choose another folder")) << result.errors;
}

TEST(TrainErrorsTest, AFullDiskLeavesThePreviousCheckpoint) {
  const TempDir dir;
  const std::vector<std::string> options = {"--steps", "400", "--eval-every", "0", "--checkpoint-every", "100"};
  ASSERT_EQ(RunCommand(TinyTrain(Joined(options, {"--out", dir / "whole"}))).exit_code, 0);
  // metrics.jsonl outgrows the limit after some of the checkpoints (of 45 kB), and none of the other files does.
  const CommandResult full = RunCommand(TinyTrain(Joined(options, {"--out", dir / "run"})), {.max_file_bytes = 60'000});
  EXPECT_EQ(full.exit_code, 5) << full.errors;
  EXPECT_FALSE(full.signalled);
  EXPECT_TRUE(Contains(full.errors, "metrics.jsonl")) << full.errors;
  const CommandResult resumed = RunCommand({"train", "--out", dir / "run", "--resume", "auto", "--threads", "1"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_TRUE(Contains(resumed.errors, "resuming after step ")) << resumed.errors;
  EXPECT_TRUE(ReadBytes(dir / "run/model.safetensors") == ReadBytes(dir / "whole/model.safetensors"));
}

TEST(TrainErrorsTest, ADiskThatIsFullWithinASaveLeavesThePreviousCheckpoint) {
  const TempDir dir;
  const std::vector<std::string> options = {"--steps", "4", "--checkpoint-every", "2", "--out", dir / "run"};
  ASSERT_EQ(RunCommand(TinyTrain(options)).exit_code, 0);
  const std::string model = ReadBytes(dir / "run/model.safetensors");
  std::filesystem::remove_all(dir / "run/checkpoints/step-00000004");
  std::filesystem::remove(dir / "run/model.safetensors");
  const std::string before = Snapshot(dir / "run/checkpoints");
  // The model's parameters take more than this, the run's other files less.
  const CommandResult full =
      RunCommand({"train", "--out", dir / "run", "--resume", "auto", "--threads", "1"}, {.max_file_bytes = 20'000});
  EXPECT_EQ(full.exit_code, 5) << full.errors;
  EXPECT_TRUE(Contains(full.errors, "model.safetensors")) << full.errors;
  EXPECT_TRUE(Snapshot(dir / "run/checkpoints") == before);
  const CommandResult resumed = RunCommand({"train", "--out", dir / "run", "--resume", "auto", "--threads", "1"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_TRUE(ReadBytes(dir / "run/model.safetensors") == model);
}

}  // namespace train_errors_test
}  // namespace crosstalk
