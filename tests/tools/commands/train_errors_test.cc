// What stops a training run: data that cannot be used, numbers that are not finite, memory and disk that run out. Each
// has its exit code, says what it is about, and leaves what is on the disk as it was.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "crosstalk/runtime/json.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace train_errors_test {

using testing::Contains;

// Of the ways in which a file can be bad, tests/models/text has more.
TEST(TrainErrorsTest, FilesThatCannotBeUsedAreRefusedByNameAndPlace) {
  const TempDir dir;
  std::string invalid;
  for (int i = 0; i < 400; ++i) invalid += "Line " + std::to_string(i) + " of a text that is long enough.\n\n";
  invalid[5000] = '\xff';
  WriteBytes(dir / "invalid.txt", invalid);
  WriteBytes(dir / "bad.jsonl", "{\"text\": \"fine\"}\n{\"words\": 3}\n");
  WriteBytes(dir / "t.model", "no model at all");
  std::filesystem::create_directory(dir / "nothing");
  ASSERT_EQ(mkfifo((dir / "pipe.txt").c_str(), 0600), 0);
  const struct {
    const char *option, *name, *says;
  } kCases[] = {{"--data", "missing.txt", ""},
                {"--data", "invalid.txt", "5000"},
                {"--data", "bad.jsonl", "2"},
                {"--data", "nothing", ""},
                {"--data", "pipe.txt", "pipe.txt: is not a regular file"},
                {"--tokenizer", "t.model", ""},
                {"--tokenizer", "missing.model", ""}};
  for (const auto& [option, name, says] : kCases) {
    ExpectExit(RunCommand(TinyTrain({option, dir / name, "--out", dir / "run"})), 3, {dir / name, says});
    EXPECT_FALSE(std::filesystem::exists(dir / "run")) << name;
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
    ExpectExit(RunCommand(TinyTrain({"--out", run, "--optimizer", optimizer, "--schedule", "linear", "--warmup", "1",
                                     "--learning-rate", learning_rate, "--steps", "1000", "--checkpoint-every", "1"})),
               4, {says, "Try a smaller --learning-rate, a longer --warmup, or --clip 1."});
    EXPECT_FALSE(std::filesystem::exists(run + "/model.safetensors"));
    // Its last checkpoint is of the last step that was made, and good: going on from it fails at the same step.
    const std::string checkpoints = Snapshot(run + "/checkpoints");
    ExpectExit(RunCommand({"train", "--out", run, "--resume", "auto", "--threads", "1"}), 4, {says});
    EXPECT_TRUE(Snapshot(run + "/checkpoints") == checkpoints);
  }
}

TEST(TrainErrorsTest, AModelThatCannotFitIsRefusedBeforeItIsBuilt) {
  // 10 TB; and more than addresses of 47 bits reach.
  for (const auto& [d_model, says] :
       {std::pair{"131072", " MB"}, {"4194304", "more memory than a process can address"}}) {
    const TempDir dir;
    ExpectExit(RunCommand(TinyTrain({"--d-model", d_model, "--d-ff", "524288", "--layers", "8", "--out", dir / "run"})),
               5, {says});
    EXPECT_FALSE(std::filesystem::exists(dir / "run"));
  }
}

TEST(TrainErrorsTest, AFolderThatCannotBeMadeNamesTheOption) {
  ExpectExit(RunCommand(TinyTrain({"--out", "/proc/none/run"})), 1,
             {"error: --out: /proc/none: cannot create the directory: ", "; choose another folder"});
}

TEST(TrainErrorsTest, AFullDiskLeavesThePreviousCheckpoint) {
  const TempDir dir;
  const std::vector<std::string> options = {"--steps", "400", "--eval-every", "0", "--checkpoint-every", "100"};
  Succeeded(RunCommand(TinyTrain(Joined(options, {"--out", dir / "whole"}))));
  // metrics.jsonl outgrows the limit after some of the checkpoints (of 45 kB), and none of the other files does.
  const CommandResult full =
      ExpectExit(RunCommand(TinyTrain(Joined(options, {"--out", dir / "run"})), {.max_file_bytes = 60'000}), 5);
  EXPECT_FALSE(full.signalled);
  EXPECT_TRUE(Contains(full.errors, "metrics.jsonl")) << full.errors;
  ExpectExit(RunCommand({"train", "--out", dir / "run", "--resume", "auto", "--threads", "1"}), 0,
             {"resuming after step "});
  EXPECT_TRUE(ReadBytes(dir / "run/model.safetensors") == ReadBytes(dir / "whole/model.safetensors"));
}

TEST(TrainErrorsTest, ADiskThatIsFullWithinASaveLeavesThePreviousCheckpoint) {
  const TempDir dir;
  const std::vector<std::string> options = {"--steps", "4", "--checkpoint-every", "2", "--out", dir / "run"};
  Succeeded(RunCommand(TinyTrain(options)));
  const std::string model = ReadBytes(dir / "run/model.safetensors");
  std::filesystem::remove_all(dir / "run/checkpoints/step-00000004");
  std::filesystem::remove(dir / "run/model.safetensors");
  const std::string before = Snapshot(dir / "run/checkpoints");
  // The model's parameters take more than this, the run's other files less.
  ExpectExit(
      RunCommand({"train", "--out", dir / "run", "--resume", "auto", "--threads", "1"}, {.max_file_bytes = 20'000}), 5,
      {"model.safetensors"});
  EXPECT_TRUE(Snapshot(dir / "run/checkpoints") == before);
  Succeeded(RunCommand({"train", "--out", dir / "run", "--resume", "auto", "--threads", "1"}));
  EXPECT_TRUE(ReadBytes(dir / "run/model.safetensors") == model);
}

}  // namespace train_errors_test
}  // namespace crosstalk
