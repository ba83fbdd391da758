// `crosstalk generate`, and the sample at the end of a training, by the command alone.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "tests/support/fusing_targets.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace {

class GenerateTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new TempDir;
    for (const std::string model : {"t5", "lm"}) {
      const CommandResult trained = RunCommand(TinyTrain({"--model", model, "--out", *dir_ / model, "--steps", "2"}));
      ASSERT_EQ(trained.exit_code, 0) << trained.errors;
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
      const CommandResult written = RunCommand({"generate", Run("lm"), "--prompt", prompt, "--max-tokens", "30",
                                                "--samples", "2", "--threads", std::to_string(threads)},
                                               from_input);
      ASSERT_EQ(written.exit_code, 0) << written.errors;
      texts[threads - 1] = written.output;
    }
    EXPECT_EQ(texts[0], texts[1]);
    EXPECT_EQ(texts[0], texts[2]);
    EXPECT_EQ(texts[0].rfind(prompt == std::string("-") ? "from the input" : "Once ", 0), 0u) << texts[0];
    EXPECT_NE(texts[0].find("\n---\n"), std::string::npos) << texts[0];
    EXPECT_EQ(texts[0].back(), '\n');
  }
}

TEST_F(GenerateTest, ATextIsTheSameOnEveryTargetThatFuses) {
  for (const auto& [model, prompt] : {std::pair{"lm", "Once "}, {"t5", "The ___ sat on ___."}}) {
    std::string expected;
    for (const std::string& target : kernels::FusingSimdTargets()) {
      const CommandResult written = Generate(model, {"--prompt", prompt, "--temperature", "1", "--simd", target});
      ASSERT_EQ(written.exit_code, 0) << written.errors;
      if (expected.empty()) expected = written.output;
      EXPECT_EQ(written.output, expected) << target;
    }
  }
}

TEST_F(GenerateTest, SeedsAndTemperaturesDecide) {
  const std::string text = Generate("lm", {"--max-tokens", "40"}).output;
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(Generate("lm", {"--max-tokens", "40", "--seed", "1"}).output, text);
  EXPECT_NE(Generate("lm", {"--max-tokens", "40", "--seed", "2"}).output, text);
  const std::string likeliest = Generate("lm", {"--temperature", "0"}).output;
  EXPECT_NE(likeliest.find_first_not_of(" \n"), std::string::npos);  // it begins with something that is seen
  EXPECT_EQ(Generate("lm", {"--temperature", "0", "--seed", "2"}).output, likeliest);
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
  const CommandResult written = Generate("t5", {"--prompt", "The ___ sat on ___.", "--temperature", "1"});
  ASSERT_EQ(written.exit_code, 0) << written.errors;
  EXPECT_EQ(written.output.rfind("The ", 0), 0u) << written.output;
  EXPECT_NE(written.output.find(" sat on "), std::string::npos) << written.output;
  EXPECT_EQ(written.output.find("___"), std::string::npos) << written.output;
}

TEST_F(GenerateTest, WhatCannotBeIsAnError) {
  const auto expect = [](const CommandResult& result, int exit_code, const std::string& part) {
    EXPECT_EQ(result.exit_code, exit_code) << result.errors;
    EXPECT_NE(result.errors.find(part), std::string::npos) << result.errors;
  };
  expect(RunCommand({"generate"}), 2, "--run is missing");
  expect(RunCommand({"generate", Run("lm"), "--run", Run("lm")}), 2, "the same option");
  expect(RunCommand({"generate", Run("nothing")}), 3, "nothing");
  expect(Generate("t5", {}), 2, "has no blank");
  expect(Generate("lm", {"--checkpoint", Run("t5") + "/checkpoints/step-00000002"}), 2, "is not of the run");
  expect(Generate("t5", {"--prompt", "none"}), 2, "--prompt");
  expect(Generate("lm", {"--temperature", "-1"}), 2, "--temperature");
  expect(Generate("lm", {"--top-p", "0"}), 2, "--top-p");
  expect(Generate("lm", {"--top-k", "-1"}), 2, "--top-k");
  expect(Generate("lm", {"--max-tokens", "0"}), 2, "--max-tokens");
  expect(Generate("lm", {"--samples", "0"}), 2, "--samples");
  expect(Generate("lm", {"--prompt", "a\xff"}), 2, "UTF-8");
}

TEST_F(GenerateTest, TheEndOfATrainingShowsWhatWasLearnt) {
  EXPECT_NE(messages_[0].find("it fills blanks of held-out text:\n"), std::string::npos) << messages_[0];
  EXPECT_NE(messages_[1].find("it writes:\n"), std::string::npos) << messages_[1];
  for (const std::string& message : messages_) {
    EXPECT_NE(message.find(" generate '"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace crosstalk
