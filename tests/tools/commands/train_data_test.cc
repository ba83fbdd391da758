// Training data as the command is given it: which file a path names, what a dry run says of it, a file that changes
// while it is in use or between sessions, and a signal while it is prepared.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/command_checks.h"
#include "tests/support/packed.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace train_data_test {

using testing::Contains;

std::string Text(const std::string& word, int count = 4000) {
  std::string text;
  for (int i = 0; i < count; ++i) text += word + std::to_string(i) + (i % 10 == 9 ? "\n" : " ");
  return text;
}

TEST(TrainDataTest, APathNamesTheFileThatItNamesForTheSystem) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "elsewhere/deep");
  std::filesystem::create_directory_symlink(dir / "elsewhere/deep", dir / "link");
  WriteBytes(dir / "f.txt", Text("wrong"));
  WriteBytes(dir / "elsewhere/f.txt", Text("right", 3000));
  const std::string path = dir / "./link/.././f.txt";
  Succeeded(RunCommand(TinyTrain({"--data", path, "--out", dir / "run"})));
  const Json run = ParseJson(ReadBytes(dir / "run/run.json"), "run.json");
  EXPECT_EQ(run.At("configuration").At("data").AsString(), dir / "link/../f.txt");
  // The wrong one has more bytes.
  const std::string shown = run.At("data").AsString();
  EXPECT_TRUE(Contains(shown, "bytes 0 to 27")) << shown;
  Succeeded(RunCommand({"train", "--out", dir / "run", "--resume", "auto"}));
}

TEST(TrainDataTest, PackedTextTrainsTheSameModel) {
  const TempDir dir;
  const std::string text = Text("word");
  std::filesystem::create_directories(dir / "plain");
  std::filesystem::create_directories(dir / "packed");
  for (const char* name : {"a.txt", "b.txt", "c.txt"}) {
    WriteBytes(dir / "plain/" + name, name + text);
    WriteBytes(dir / "packed/" + name + ".gz", Gzip(name + text));
  }
  for (const char* data : {"plain", "packed"}) {
    Succeeded(
        RunCommand(TinyTrain({"--data", dir / data, "--out", StrCat(dir.path(), "/run-", data), "--steps", "3"})));
  }
  EXPECT_TRUE(ReadBytes(dir / "run-plain/model.safetensors") == ReadBytes(dir / "run-packed/model.safetensors"));
  const auto loss_on = [&](const std::string& data) {
    const CommandResult result = RunCommand({"eval", "--run", dir / "run-packed", "--data", dir / data, "--json"});
    return ParseJson(Succeeded(result).output, data).At("ln_ppl").AsDouble();
  };
  EXPECT_EQ(loss_on("packed/a.txt.gz"), loss_on("plain/a.txt"));
}

// Exit code 3, with what it is and what to do; nothing is trained on that is not the user's text.
TEST(TrainDataTest, WhatIsNoTextIsRefusedByName) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "folder");
  WriteBytes(dir / "folder/good.txt", Text("w"));
  std::filesystem::create_symlink("gone.txt", dir / "folder/dangling.txt");
  WriteBytes(dir / "rows.txt", "text,label\none,1\ntwo,0\n");
  WriteBytes(dir / "list.json", "[{\"text\": \"one\"}]");
  WriteBytes(dir / "table.parquet", "PAR1");
  for (const auto& [path, says] :
       {std::pair("folder", "dangling.txt: is a link to a file that is not there"),
        std::pair("rows.txt", "rows.txt: is CSV by its content"), std::pair("list.json", "list.json: is a JSON list"),
        std::pair("table.parquet", "table.parquet: is a Parquet file")}) {
    ExpectExit(RunCommand({"train", "--dry-run", "--data", dir / path}), 3, {says});
  }
}

TEST(TrainDataTest, AnEmptyTextIsNotTheDefault) {
  const TempDir dir;
  for (const char* option : {"--data", "--validation", "--tokenizer", "--out", "--resume"}) {
    ExpectExit(RunCommand({"train", "--dry-run", option, ""}), 2, {std::string(option) + " is given an empty text"});
  }
  ExpectExit(RunCommand({"attend", "", "-o", dir / "x"}), 2, {"is given an empty text"});
}

TEST(TrainDataTest, APathThatJsonCannotKeepIsRefused) {
  const TempDir dir;
  const std::string latin = dir / "caf\xE9.txt";
  WriteBytes(latin, Text("w"));
  for (const char* option : {"--data", "--validation", "--tokenizer", "--out"}) {
    ExpectExit(RunCommand(TinyTrain({option, latin})), 2, {StrCat(option, ": ", Quoted(latin), " is not UTF-8 text")});
  }
}

TEST(TrainDataTest, AWorkingFolderThatIsGoneIsSaid) {
  const TempDir dir;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::create_directory(dir / "gone");
  std::filesystem::current_path(dir / "gone");
  std::filesystem::remove(dir / "gone");
  const CommandResult relative = RunCommand(TinyTrain({"--data", "text.txt", "--out", dir / "run"}));
  const CommandResult absolute = RunCommand(TinyTrain({"--out", dir / "run"}));
  std::filesystem::current_path(before);
  EXPECT_EQ(relative.exit_code, 2) << relative.errors;
  EXPECT_TRUE(Contains(relative.errors, "--data: text.txt is relative to the working folder")) << relative.errors;
  EXPECT_EQ(absolute.exit_code, 0) << absolute.errors;
}

TEST(TrainDataTest, ADryRunSaysWhatTrainingWouldSay) {
  const TempDir dir;
  WriteBytes(dir / "short.txt", "A few words.");
  WriteBytes(dir / "fine.txt", Text("w"));
  const std::vector<std::vector<std::string>> cases = {
      {"--data", dir / "missing.txt"},
      {"--data", dir / "short.txt"},
      {"--data", dir / "fine.txt", "--input-length", "3000", "--mean-span-length", "50"},
      {"--data", dir / "fine.txt", "--validation", dir / "short.txt"},
      {"--tokenizer", "sentencepiece", "--vocabulary", "16"},
      {"--data", dir / "short.txt", "--tokenizer", "sentencepiece", "--vocabulary", "400"},
      {"--input-length", "8192"},
  };
  for (const std::vector<std::string>& options : cases) {
    const CommandResult training = RunCommand(TinyTrain(Joined(options, {"--out", dir / "run"})));
    const CommandResult dry = RunCommand(TinyTrain(Joined(options, {"--dry-run"})));
    EXPECT_NE(training.exit_code, 0) << options.back();
    EXPECT_EQ(dry.exit_code, training.exit_code) << options.back() << "\n" << dry.output;
    EXPECT_EQ(dry.errors, training.errors) << options.back();
  }
  Succeeded(RunCommand(TinyTrain({"--data", dir / "fine.txt", "--dry-run"})));
}

TEST(TrainDataTest, AFileThatIsCutWhileTrainingIsNamedAndTheCheckpointStands) {
  const TempDir dir;
  WriteBytes(dir / "text.txt", Text("w"));
  RunningCommand command(TinyTrain({"--data", dir / "text.txt", "--steps", "1000000", "--checkpoint-every", "2",
                                    "--eval-every", "0", "--out", dir / "run"}));
  while (command.Running() && !std::filesystem::exists(dir / "run/checkpoints")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::filesystem::resize_file(dir / "text.txt", 0);
  const CommandResult result = ExpectExit(command.Wait(), 3);
  EXPECT_FALSE(result.signalled);
  EXPECT_TRUE(Contains(result.errors, dir / "text.txt: has changed since it was opened")) << result.errors;
  // With the text as it was, the run goes on.
  WriteBytes(dir / "text.txt", Text("w"));
  RunningCommand again({"train", "--out", dir / "run", "--resume", "auto", "--threads", "1"});
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  again.Signal(SIGTERM);
  ExpectExit(again.Wait(), 143);
}

TEST(TrainDataTest, AChangeOfTheTextAnywhereIsNoticedAtResume) {
  const TempDir dir;
  const std::string text = Text("w", 40'000);
  WriteBytes(dir / "text.txt", text);
  Succeeded(RunCommand(TinyTrain({"--out", dir / "run", "--data", dir / "text.txt"})));
  const auto resume = [&] { return RunCommand({"train", "--out", dir / "run", "--resume", "auto", "--threads", "1"}); };
  for (const double share : {0.01, 0.33, 0.5, 0.77, 0.99}) {
    std::string changed = text;
    changed[static_cast<size_t>(share * static_cast<double>(text.size()))] = '!';
    WriteBytes(dir / "text.txt", changed);
    ExpectExit(resume(), 3, {"data: the text has changed"});
  }
  WriteBytes(dir / "text.txt", text);
  Succeeded(resume());
}

TEST(TrainDataTest, ASignalWhileATokenizerIsTrainedEndsAtOnce) {
  const TempDir dir;
  std::string text;  // of which a tokenizer of this size takes many seconds
  uint32_t state = 1;
  for (int i = 0; i < 1'000'000; ++i) {
    state = state * 1664525 + 1013904223;
    text += state >> 24 < 40 ? (i % 97 == 0 ? '\n' : ' ') : static_cast<char>('a' + (state >> 16) % 26);
  }
  WriteBytes(dir / "text.txt", text);
  RunningCommand command(TinyTrain(
      {"--data", dir / "text.txt", "--tokenizer", "sentencepiece", "--vocabulary", "8000", "--out", dir / "run"}));
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  const auto start = std::chrono::steady_clock::now();
  command.Signal(SIGTERM);
  const CommandResult result = command.Wait();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
  EXPECT_EQ(result.exit_code, 143) << result.errors;
  EXPECT_FALSE(result.signalled) << "the signal was not handled";
  EXPECT_TRUE(Contains(result.errors, "interrupted before anything was saved")) << result.errors;
  EXPECT_FALSE(std::filesystem::exists(dir / "run/run.json"));
  Succeeded(RunCommand(TinyTrain({"--out", dir / "run"})));
}

}  // namespace train_data_test
}  // namespace crosstalk
