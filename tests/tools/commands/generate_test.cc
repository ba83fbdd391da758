// `crosstalk generate`, and the sample at the end of a training, by the command alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/tensor.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace generate_test {

class GenerateTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new TempDir;
    for (const std::string model : {"t5", "lm"}) {
      const CommandResult trained =
          Succeeded(RunCommand(TinyTrain({"--model", model, "--out", *dir_ / model, "--steps", "2"})));
      messages_[model == "lm"] = trained.errors;
    }
  }
  static void TearDownTestSuite() { delete dir_; }

  static std::string Run(const std::string& model) { return *dir_ / model; }
  static CommandResult Generate(const std::string& model, const std::vector<std::string>& more) {
    return RunCommand(Joined({"generate", Run(model)}, more));
  }
  static inline TempDir* dir_ = nullptr;
  static inline std::string messages_[2];
};

TEST_F(GenerateTest, ATextIsTheSameOnAnyNumberOfThreads) {
  WriteBytes(*dir_ / "input", "from the input\n");
  CommandOptions from_input;
  from_input.input_from = *dir_ / "input";
  for (const char* prompt : {"Once ", "-"}) {
    std::string texts[3];
    for (const int threads : {1, 2, 3}) {
      const CommandResult written = Succeeded(RunCommand({"generate", Run("lm"), "--text", prompt, "--max-length", "30",
                                                          "--answers", "2", "--threads", std::to_string(threads)},
                                                         from_input));
      texts[threads - 1] = written.output;
    }
    EXPECT_EQ(texts[0], texts[1]);
    EXPECT_EQ(texts[0], texts[2]);
    EXPECT_EQ(texts[0].rfind(prompt == std::string("-") ? "from the input" : "Once ", 0), 0u) << texts[0];
    EXPECT_NE(texts[0].find("\n---\n"), std::string::npos) << texts[0];
    EXPECT_EQ(texts[0].back(), '\n');
  }
}

TEST_F(GenerateTest, SeedsAndTemperaturesDecide) {
  const std::string text = Generate("lm", {"--max-length", "40"}).output;
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(Generate("lm", {"--max-length", "40", "--seed", "1"}).output, text);
  EXPECT_NE(Generate("lm", {"--max-length", "40", "--seed", "2"}).output, text);
  const std::string likeliest = Generate("lm", {"--temperature", "0"}).output;
  EXPECT_NE(likeliest.find_first_not_of(" \n"), std::string::npos);  // it begins with something that is seen
  EXPECT_EQ(Generate("lm", {"--top-k", "1", "--seed", "3"}).output, likeliest);
  EXPECT_EQ(Generate("lm", {"--top-p", "0.0001", "--seed", "4"}).output, likeliest);
}

TEST_F(GenerateTest, ARunACheckpointAndTheOptionNameTheModel) {
  const std::string text = Generate("lm", {}).output;
  EXPECT_EQ(RunCommand({"generate", "--run", Run("lm")}).output, text);
  EXPECT_EQ(RunCommand({"generate", Run("lm") + "/checkpoints/step-00000002"}).output, text);
  EXPECT_EQ(RunCommand({"generate", "--checkpoint", Run("lm") + "/checkpoints/step-00000002"}).output, text);
  EXPECT_EQ(Generate("lm", {"--checkpoint", Run("lm") + "/checkpoints/step-00000002"}).output, text);
}

TEST_F(GenerateTest, AT5FillsBlanks) {
  const CommandResult written = Succeeded(Generate("t5", {"--text", "The ___ sat on ___.", "--temperature", "1"}));
  EXPECT_EQ(written.output.rfind("The ", 0), 0u) << written.output;
  EXPECT_NE(written.output.find(" sat on "), std::string::npos) << written.output;
  EXPECT_EQ(written.output.find("___"), std::string::npos) << written.output;
}

// The values of a line of --json.
struct Line {
  int64_t input;
  std::vector<int64_t> ids;
  Json text;
  double score;
};

std::vector<Line> LinesOf(const CommandResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  std::vector<Line> lines;
  std::istringstream in(result.output);
  for (std::string text; std::getline(in, text);) {
    const Json json = ParseJson(text, "a line");
    Line line = {json.At("input").AsInt(), {}, json.At("text"), json.At("score").AsDouble()};
    for (const Json& id : json.At("ids").AsArray()) line.ids.push_back(id.AsInt());
    lines.push_back(line);
  }
  return lines;
}

TEST_F(GenerateTest, LinesOfAFileAreAnsweredInTheirOrderBestFirst) {
  WriteBytes(*dir_ / "texts", "One short line\nFill the ___ in\r\nAnother one that is a good deal longer than that");
  CommandOptions from_input;
  from_input.input_from = *dir_ / "texts";
  const std::vector<std::string> options = {"--beams", "3", "--answers", "2", "--max-length", "8", "--json"};
  const CommandResult result = Generate("t5", Joined({"--texts", *dir_ / "texts"}, options));
  const std::vector<Line> lines = LinesOf(result);
  ASSERT_EQ(lines.size(), 6u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(lines[i].input, static_cast<int64_t>(i / 2));
  for (size_t i = 0; i < 6; i += 2) EXPECT_GE(lines[i].score, lines[i + 1].score);
  EXPECT_EQ(lines[2].text.AsString().rfind("Fill the ", 0), 0u) << result.output;
  EXPECT_EQ(lines[2].text.AsString().find("\r"), std::string::npos);
  EXPECT_EQ(RunCommand(Joined({"generate", Run("t5"), "--texts", "-"}, options), from_input).output, result.output);
  for (const char* batch : {"1", "2"}) {
    EXPECT_EQ(Generate("t5", Joined({"--texts", *dir_ / "texts", "--batch", batch}, options)).output, result.output);
  }
  // The text alone, and what is shown without --json.
  const std::string text = "Another one that is a good deal longer than that";
  const std::vector<Line> alone = LinesOf(Generate("t5", Joined({"--text", text}, options)));
  ASSERT_EQ(alone.size(), 2u);
  EXPECT_EQ(alone[0].ids, lines[4].ids);
  EXPECT_EQ(alone[0].score, lines[4].score);
  const CommandResult shown = Generate("t5", {"--text", text, "--beams", "3", "--max-length", "8"});
  EXPECT_EQ(shown.output, lines[4].text.AsString() + "\n");
}

TEST_F(GenerateTest, IdsOfAFileAreAnsweredWhateverTheirPadding) {
  const auto write = [&](const std::string& name, std::vector<int64_t> ids, std::vector<int64_t> mask) {
    const Shape shape = {2, static_cast<int64_t>(ids.size()) / 2};
    std::vector<NamedTensor> tensors = {{"input_ids", Tensor::FromValues<int64_t>(shape, ids)}};
    if (!mask.empty()) tensors.push_back({"attention_mask", Tensor::FromValues<int64_t>(shape, mask)});
    WriteSafetensors(*dir_ / name, tensors);
  };
  write("a", {70, 80, 90, 1, 75, 85, 0, 0}, {});
  write("b", {70, 80, 90, 1, 9, 9, 9, 75, 85, 0}, {1, 1, 1, 1, 0, 0, 0, 1, 1, 0});
  for (const char* model : {"t5", "lm"}) {
    const CommandResult a =
        Generate(model, {"--inputs", *dir_ / "a", "--max-length", "6", "--beams", "2", "--answers", "2", "--json"});
    const std::vector<Line> lines = LinesOf(a);
    ASSERT_EQ(lines.size(), 4u) << a.output;
    EXPECT_FALSE(lines[0].ids.empty());
    EXPECT_EQ(lines[0].text.type(), Json::Type::kString);
    EXPECT_EQ(
        Generate(model, {"--inputs", *dir_ / "b", "--max-length", "6", "--beams", "2", "--answers", "2", "--json"})
            .output,
        a.output);
  }
  write("c", {70, 80, 90, 1, 75, 85, 0, 0}, {1, 0, 1, 1, 1, 1, 0, 0});
  Succeeded(Generate("t5", {"--inputs", *dir_ / "c"}));
  EXPECT_EQ(Generate("lm", {"--inputs", *dir_ / "c"}).exit_code, 3);
  write("c", {70, 80, 90, 1, 75, 85, 0, 1 << 20}, {});
  EXPECT_EQ(Generate("t5", {"--inputs", *dir_ / "c"}).exit_code, 3);
  write("c", {70, 80, 90, 1, 75, 85, 0, 0}, {1, 1, 1, 1, 0, 0, 0, 0});
  EXPECT_EQ(Generate("t5", {"--inputs", *dir_ / "c"}).exit_code, 3);
}

TEST_F(GenerateTest, ALengthOfBlanksIsThatOfEachAlone) {
  const std::vector<Line> lines =
      LinesOf(Generate("t5", {"--text", "The ___ sat on ___ then.", "--max-length", "2", "--json"}));
  ASSERT_EQ(lines.size(), 1u);
  // At most a sentinel and two tokens for each blank, the next sentinel, and the end token.
  EXPECT_LE(lines[0].ids.size(), 8u);
  EXPECT_GT(lines[0].ids.size(), 2u);
}

TEST_F(GenerateTest, AnEmptyLineIsATextOfALanguageModel) {
  WriteBytes(*dir_ / "gaps", "one\n\ntwo\n");
  const std::vector<Line> lines = LinesOf(Generate("lm", {"--texts", *dir_ / "gaps", "--max-length", "3", "--json"}));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1].text, LinesOf(Generate("lm", {"--max-length", "3", "--json"}))[0].text);
}

TEST_F(GenerateTest, WhatCannotBeIsAnError) {
  ExpectExit(RunCommand({"generate"}), 2, {"--run is missing"});
  ExpectExit(RunCommand({"generate", Run("lm"), "--run", Run("lm")}), 2, {"are the same option"});
  ExpectExit(RunCommand({"generate", Run("nothing")}), 3, {"nothing"});
  ExpectExit(Generate("t5", {}), 2, {"--text: is empty"});
  ExpectExit(Generate("lm", {"--checkpoint", Run("t5") + "/checkpoints/step-00000002"}), 2, {"is not of the run"});
  ExpectExit(RunCommand({"generate", *dir_ / ""}), 3, {"holds no run"});
  ExpectExit(Generate("t5", {"--texts", *dir_ / "none"}), 3, {"none"});
  WriteBytes(*dir_ / "lines", "one\n\n");
  ExpectExit(Generate("t5", {"--texts", *dir_ / "lines"}), 3, {"lines, line 2: "});
  WriteBytes(*dir_ / "lines", "one\n\xff\n");
  ExpectExit(Generate("t5", {"--texts", *dir_ / "lines"}), 3, {"lines, line 2: "});
  ExpectExit(Generate("lm", {"--temperature", "-1"}), 2, {"--temperature"});
  ExpectExit(Generate("lm", {"--top-p", "0"}), 2, {"--top-p"});
  ExpectExit(Generate("lm", {"--top-k", "-1"}), 2, {"--top-k"});
  ExpectExit(Generate("lm", {"--max-length", "0"}), 2, {"--max-length"});
  ExpectExit(Generate("lm", {"--answers", "0"}), 2, {"--answers"});
  ExpectExit(Generate("lm", {"--answers", "10001"}), 2, {"--answers: 10001 is not in 1 … 10000"});
  ExpectExit(Generate("lm", {"--beams", "0"}), 2, {"--beams"});
  ExpectExit(Generate("lm", {"--beams", "2", "--temperature", "1"}), 2, {"--beams"});
  ExpectExit(Generate("lm", {"--temperature", "0", "--answers", "2"}), 2, {"--answers"});
  ExpectExit(Generate("lm", {"--length-penalty", "-1"}), 2, {"--length-penalty"});
  ExpectExit(Generate("lm", {"--length-normalisation", "mean"}), 2, {"--length-normalisation"});
  for (const char* option : {"--top-k", "--top-p", "--seed"}) {
    ExpectExit(Generate("lm", {"--temperature", "0", option, "1"}), 2,
               {std::string(option) + " is of tokens that are drawn"});
    ExpectExit(Generate("t5", {"--text", "a ___", option, "1"}), 2,
               {std::string(option) + " is of tokens that are drawn"});
  }
  ExpectExit(Generate("lm", {"--early-stopping"}), 2, {"--early-stopping is of a beam search"});
  ExpectExit(Generate("lm", {"--length-penalty", "2"}), 2, {"--length-penalty is of scores"});
  ExpectExit(Generate("lm", {"--length-normalisation", "gnmt"}), 2, {"--length-normalisation is of scores"});
  ExpectExit(Generate("lm", {"--text", "a", "--texts", "b"}), 2, {"give one"});
  ExpectExit(Generate("lm", {"--text", "a\xff"}), 2, {"UTF-8"});
}

TEST_F(GenerateTest, TheEndOfATrainingShowsWhatWasLearnt) {
  EXPECT_NE(messages_[0].find("it fills blanks of held-out text, its own words in brackets:\n"), std::string::npos)
      << messages_[0];
  EXPECT_NE(messages_[1].find("it goes on with held-out text, its own words in brackets:\nIt was a "),
            std::string::npos)
      << messages_[1];
  EXPECT_NE(messages_[1].find("--text 'a text to go on with'"), std::string::npos) << messages_[1];
  for (const std::string& message : messages_) {
    EXPECT_NE(message.find(" generate '"), std::string::npos) << message;
  }
}

}  // namespace generate_test
}  // namespace crosstalk
