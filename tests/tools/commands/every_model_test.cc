// What holds for each model of the registry on each objective it can be trained on, by the command alone: a model that
// is added is tested here without a line.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>

#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/safetensors.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"
#include "tools/page/samples.h"

namespace crosstalk {
namespace every_model_test {

struct Pairing {
  std::string model, objective;
};

std::vector<Pairing> Pairings() {
  std::vector<Pairing> pairings;
  for (const ModelType& type : ModelTypes()) {
    for (const char* objective : type.objectives) pairings.push_back({type.name, objective});
  }
  return pairings;
}

class EveryModelTest : public ::testing::TestWithParam<Pairing> {
 protected:
  std::vector<std::string> Train(const std::string& out, const std::vector<std::string>& more = {}) const {
    const auto& [model, objective] = GetParam();
    std::vector<std::string> words = {"--steps", "6", "--checkpoint-every", "2", "--out", out, "--model", model};
    words.insert(words.end(), {"--objective", objective});
    if (FindObjective(objective).learns_tasks()) {
      words = Joined(words,
                     {"--task", "stories", "--task-data", std::string(std::getenv("CROSSTALK_SOURCE")) + "/examples"});
    }
    return TinyTrain(Joined(words, more));
  }
};

// In bfloat16 training rounds weights as it reads them, eval once.
TEST_P(EveryModelTest, EvalRepeatsTheLastMeasureAndADryRunCountsWhatTrainingHas) {
  const TempDir dir;
  const Json dry = ParseJson(Succeeded(RunCommand(Train(dir / "fp32", {"--dry-run", "--json"}))).output, "dry");
  EXPECT_GT(dry.At("multiplications_per_step").AsInt(), 0);
  for (const char* precision : {"fp32", "bf16"}) {
    const CommandResult trained = Succeeded(RunCommand(Train(dir / precision, {"--precision", precision, "--json"})));
    const CommandResult measured = Succeeded(RunCommand({"eval", "--run", dir / precision, "--json"}));
    EXPECT_EQ(dry.At("parameters"), ParseJson(trained.output, "train").At("parameters"));
    const Json before = ParseJson(trained.output, "train").At("evaluation");
    const Json after = ParseJson(measured.output, "eval");
    for (const auto& [key, value] : before.AsObject()) EXPECT_EQ(after.At(key), value) << precision << ": " << key;
  }
}

// The part of a random model's text that no terminal and no bracket changes.
std::string LettersAndDigits(const std::string& text) {
  std::string plain;
  std::copy_if(text.begin(), text.end(), std::back_inserter(plain),
               [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
  return plain;
}

TEST_P(EveryModelTest, TheEndOfATrainingShowsWhatGenerateWrites) {
  const TempDir dir;
  const std::string heading = "its own words are in brackets:\n";
  for (const std::string precision : {"fp32", "bf16"}) {
    SCOPED_TRACE(precision);
    const std::string run = dir / precision;
    const CommandResult trained = RunCommand(Train(run, {"--precision", precision, "--seed", "5"}));
    ASSERT_EQ(trained.exit_code, 0) << trained.errors;
    const Trained newest = OpenRun(run);
    const std::unique_ptr<TextWriter> writer = newest.model->MakeWriter(newest.tokenizer);
    const size_t found = trained.errors.find(heading);
    const bool shows = writer != nullptr && !FindObjective(GetParam().objective).learns_tasks();
    ASSERT_EQ(found != std::string::npos, shows) << trained.errors;
    if (!shows) continue;
    const size_t begin = found + heading.size();
    const std::string sample = trained.errors.substr(begin, trained.errors.find("\nwhat ", begin) - begin);
    const std::shared_ptr<const TextSource> held_out = OpenCorpus(*ResolvedConfig(newest.config)).validation;
    const std::string prompt = MakeSamplePrompt(*writer, *held_out, 0).text;
    const SearchOptions options = writer->Defaults(prompt);
    const bool draws = options.sampling.temperature > 0;
    std::vector<std::string> as_in_training = {"--text", prompt, "--max-length",
                                               std::to_string(std::min<int64_t>(options.max_length, 150))};
    if (draws) as_in_training = Joined(as_in_training, {"--seed", "5"});
    const auto written = [&](const std::string& model, const std::vector<std::string>& more) {
      const CommandResult result = RunCommand(Joined(Joined({"generate", model}, as_in_training), more));
      EXPECT_EQ(result.exit_code, 0) << result.errors;
      return LettersAndDigits(result.output);
    };
    EXPECT_EQ(LettersAndDigits(sample), written(run, {}));
    // The likeliest tokens of so small a model are seldom others.
    const std::string other = precision == "fp32" ? "bf16" : "fp32";
    if (draws) {
      EXPECT_NE(LettersAndDigits(sample), written(run, {"--precision", other}));
    }
    // A checkpoint says what it was trained in, as its run does.
    EXPECT_EQ(LettersAndDigits(sample), written(run + "/checkpoints/step-00000006", {}));
  }
}

TEST_P(EveryModelTest, BeginsWithTheWeightsOfAnotherRun) {
  const TempDir dir;
  Succeeded(RunCommand(Train(dir / "origin")));
  const TensorFile before = ReadSafetensors(dir / "origin/model.safetensors");
  const std::string& frozen = before.tensors[0].name;
  const std::vector<std::string> warm = {
      "train",   "--init-from", dir / "origin",   "--seed", "5",       "--frozen", frozen,
      "--steps", "4",           "--eval-batches", "1",      "--batch", "4",        "--threads"};
  for (const char* threads : {"1", "3"}) {
    Succeeded(RunCommand(Joined(warm, {threads, "--out", dir / threads})));
  }
  EXPECT_TRUE(ReadBytes(dir / "1/model.safetensors") == ReadBytes(dir / "3/model.safetensors"));
  int moved = 0;
  for (const NamedTensor& after : ReadSafetensors(dir / "1/model.safetensors").tensors) {
    const bool same = after.tensor.ToVector<float>() == before.At(after.name).ToVector<float>();
    EXPECT_TRUE(same || after.name != frozen) << frozen;
    moved += same ? 0 : 1;
  }
  EXPECT_GT(moved, static_cast<int>(before.tensors.size()) / 2);
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryModelTest, ::testing::ValuesIn(Pairings()), [](const auto& pairing) {
  std::string name = pairing.param.model + "_" + pairing.param.objective;
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
});

}  // namespace every_model_test
}  // namespace crosstalk
