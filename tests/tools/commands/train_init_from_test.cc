// `crosstalk train --init-from`: what a user may expect of it, and what it refuses.
#include <gtest/gtest.h>

#include "crosstalk/runtime/json.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace train_init_from_test {

using testing::Contains;

namespace fs = std::filesystem;

class TrainInitFromTest : public ::testing::Test {
 protected:
  // 8 steps, checkpoints of steps 6 and 8, a tokenizer of its own.
  void SetUp() override {
    Succeeded(RunCommand(
        TinyTrain({"--tokenizer", "sentencepiece", "--vocabulary", "330", "--dropout", "0.1", "--out", Origin()})));
  }

  std::string Origin() const { return dir_ / "origin"; }
  std::vector<std::string> Warm(const std::string& out, const std::vector<std::string>& more = {}) const {
    return Joined({"train", "--init-from", Origin(), "--out", out, "--steps", "6", "--batch", "4", "--eval-batches",
                   "1", "--checkpoint-every", "1", "--threads", "1"},
                  more);
  }

  TempDir dir_;
};

TEST_F(TrainInitFromTest, ModelAndTokenizerAreTheOriginsAndAllElseItsOwn) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "Line " + std::to_string(i) + " of another text, which is long enough.\n\n";
  WriteBytes(dir_ / "other.txt", text);
  const std::string before = Snapshot(Origin());
  ExpectExit(RunCommand(Warm(dir_ / "warm", {"--data", dir_ / "other.txt", "--dropout", "0"})), 0,
             {"begins with the weights of " + Origin() +
              "/checkpoints/step-00000008 (step 8); optimizer, schedule and step count "
              "start from zero"});
  EXPECT_TRUE(ReadBytes(dir_ / "warm/tokenizer.model") == ReadBytes(Origin() + "/tokenizer.model"));
  const Json run = ParseJson(ReadBytes(dir_ / "warm/run.json"), "run.json");
  const Json& config = run.At("configuration");
  EXPECT_EQ(config.At("d_model"), Json(16));
  EXPECT_EQ(config.At("input_length"), Json(16));
  EXPECT_EQ(config.At("dropout"), Json(0.0));
  EXPECT_EQ(config.At("data"), Json(dir_ / "other.txt"));
  EXPECT_EQ(config.At("steps"), Json(6));
  EXPECT_TRUE(Snapshot(Origin()) == before);
  Succeeded(RunCommand({"eval", "--run", dir_ / "warm"}));
}

TEST_F(TrainInitFromTest, ADryRunShowsWhatIsTrainedAndChecksTheOrigin) {
  const CommandResult text = Succeeded(RunCommand(Warm(dir_ / "warm", {"--dry-run", "--frozen", "embedding,encoder"})));
  EXPECT_TRUE(Contains(text.output, " are trained, ")) << text.output;
  EXPECT_TRUE(Contains(text.output, "step-00000008 (step 8)")) << text.output;
  const CommandResult json = RunCommand(Warm(dir_ / "warm", {"--dry-run", "--frozen", "embedding", "--json"}));
  EXPECT_EQ(ParseJson(json.output, "dry").At("frozen_parameters"), Json(512 * 16));
  EXPECT_EQ(RunCommand(Warm(dir_ / "warm", {"--dry-run", "--d-ff", "40"})).exit_code, 2);
}

// The run's own checkpoint and tokenizer are enough, as they are for the run.
TEST_F(TrainInitFromTest, ADryRunOfWhatIsResumedNeedsNoOrigin) {
  Succeeded(RunCommand(Warm(dir_ / "warm")));
  fs::remove_all(Origin());
  const std::string before = Snapshot(dir_ / "warm");
  const std::string checkpoint = dir_ / "warm/checkpoints/step-00000006";
  for (const std::vector<std::string>& resume :
       {std::vector<std::string>{"--resume", dir_ / "warm"}, {"--resume", checkpoint, "--out", dir_ / "fork"}}) {
    const CommandResult result = Succeeded(RunCommand(Joined({"train", "--steps", "9", "--dry-run"}, resume)));
    EXPECT_TRUE(Contains(result.output, checkpoint + " (step 6)")) << result.output;
    const CommandResult json = RunCommand(Joined({"train", "--steps", "9", "--dry-run", "--json"}, resume));
    EXPECT_EQ(ParseJson(json.output, "dry").At("model").At("vocabulary"),
              ParseJson(ReadBytes(dir_ / "warm/run.json"), "run").At("model").At("vocabulary"));
  }
  EXPECT_TRUE(Snapshot(dir_ / "warm") == before);
  EXPECT_FALSE(fs::exists(dir_ / "fork"));
  // Weights that it did not begin with are looked at.
  ExpectExit(RunCommand({"train", "--resume", dir_ / "warm", "--init-from", dir_ / "x", "--dry-run"}), 2);
}

TEST_F(TrainInitFromTest, WhatContradictsTheOriginIsRefused) {
  WriteBytes(dir_ / "letter.txt", "Dear reader");
  const std::string before = Snapshot(Origin());
  struct Case {
    std::vector<std::string> options;
    int exit_code;
    std::string says;
  };
  const std::vector<Case> cases = {
      {{"--d-model", "32"},
       2,
       "--init-from: " + Origin() + "/checkpoints/step-00000008 is of another model:\n  --d-model: 32 here, 16 there"},
      {{"--attention", "multihead"}, 2, "\n  --attention: \"multihead\" here, \"talking\" there"},
      {{"--tokenizer", "bytes"}, 2, "--tokenizer: bytes gives one of kind bytes with 359 ids, which is not the one"},
      {{"--vocabulary", "340"}, 2, "leave out --tokenizer and --vocabulary to take the origin's"},
      {{"--frozen", "encodr"}, 2, "--frozen: there is no parameter \"encodr\""},
      {{"--frozen", "*"}, 2, "leaves nothing to train"},
  };
  for (const Case& refused : cases) {
    const CommandResult result = RunCommand(Warm(dir_ / "warm", refused.options));
    EXPECT_EQ(result.exit_code, refused.exit_code) << result.errors;
    EXPECT_TRUE(Contains(result.errors, refused.says)) << refused.says << "\n" << result.errors;
    EXPECT_FALSE(fs::exists(dir_ / "warm")) << refused.says;
  }
  const std::vector<Case> origins = {
      {{dir_ / "nowhere"}, 2, "there is no run or checkpoint there"},
      {{dir_ / "letter.txt"}, 2, "is a file; name a run's folder"},
      {{Origin() + "/model.safetensors"}, 2, "is a file; name a run's folder"},
      {{Origin() + "/checkpoints"}, 3, "not a checkpoint"},
      {{dir_.path()}, 3, "not a checkpoint"},
  };
  for (const Case& refused : origins) {
    const CommandResult result =
        RunCommand({"train", "--init-from", refused.options[0], "--out", dir_ / "warm", "--threads", "1"});
    EXPECT_EQ(result.exit_code, refused.exit_code) << result.errors;
    EXPECT_TRUE(Contains(result.errors, refused.says)) << refused.says << "\n" << result.errors;
    EXPECT_FALSE(fs::exists(dir_ / "warm")) << refused.says;
  }
  // The run itself.
  ExpectExit(RunCommand(Warm(Origin())), 2, {"holds a run already"});
  ExpectExit(RunCommand({"train", "--resume", Origin(), "--init-from", Origin()}), 3, {"--init-from: weights crc64:"});
  EXPECT_TRUE(Snapshot(Origin()) == before);
}

// Its ids would have other text than the one that their weights have learnt.
TEST_F(TrainInitFromTest, AnotherTokenizerOfAsManyIdsIsRefused) {
  std::string text, other;
  for (int i = 0; i < 400; ++i) {
    text += "Line " + std::to_string(i) + " of a text that is long enough.\n\n";
    other += "Linz " + std::to_string(i) + " of a tzxt that is long znough.\n\n";
  }
  WriteBytes(dir_ / "text.txt", text);
  WriteBytes(dir_ / "same.txt", text + text);
  WriteBytes(dir_ / "other.txt", other);
  Succeeded(RunCommand(TinyTrain(
      {"--tokenizer", "characters", "--data", dir_ / "text.txt", "--steps", "2", "--out", dir_ / "letters"})));
  // Another vocabulary asks for a tokenizer of the new text, which has as many characters.
  const auto warm = [&](const std::string& data) {
    return RunCommand({"train", "--init-from", dir_ / "letters", "--vocabulary", "99", "--data", dir_ / data, "--steps",
                       "1", "--threads", "1", "--out", dir_ / "warm"});
  };
  ExpectExit(warm("other.txt"), 2, {"--tokenizer: characters gives one of kind characters with "});
  EXPECT_FALSE(fs::exists(dir_ / "warm"));
  Succeeded(warm("same.txt"));
}

TEST_F(TrainInitFromTest, ADamagedOriginIsPassedOverOrRefused) {
  for (const char* step : {"8", "6"}) {
    const std::string path = Origin() + "/checkpoints/step-0000000" + step + "/model.safetensors";
    std::string bytes = ReadBytes(path);
    bytes[bytes.size() / 2] ^= 0x10;
    WriteBytes(path, bytes);
    const CommandResult result = RunCommand(Warm(dir_ / "warm"));
    if (*step == '8') {
      ASSERT_EQ(result.exit_code, 0) << result.errors;
      EXPECT_TRUE(Contains(result.errors, "skipped a damaged checkpoint: " + path)) << result.errors;
      EXPECT_TRUE(Contains(result.errors, "(step 6)")) << result.errors;
      fs::remove_all(dir_ / "warm");
    } else {
      EXPECT_EQ(result.exit_code, 3) << result.errors;
      EXPECT_TRUE(Contains(result.errors, "--init-from: ") && Contains(result.errors, path + ": altered"))
          << result.errors;
      EXPECT_FALSE(fs::exists(dir_ / "warm"));
    }
  }
}

TEST_F(TrainInitFromTest, ADiskThatIsFullAtTheFirstSaveLeavesAFolderToBeginIn) {
  // The model's parameters take more than this.
  ExpectExit(RunCommand(Warm(dir_ / "warm"), {.max_file_bytes = 20'000}), 5);
  EXPECT_FALSE(fs::exists(dir_ / "warm/run.json"));
  Succeeded(RunCommand(Warm(dir_ / "warm")));
}

}  // namespace train_init_from_test
}  // namespace crosstalk
