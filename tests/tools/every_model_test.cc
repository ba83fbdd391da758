// What holds for each model of the registry on each objective it can be trained on, by the command alone: a model that
// is added is tested here without a line.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "crosstalk/models/objectives/objective.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/runtime/safetensors.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

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
    std::vector<std::string> words = {"--model",
                                      GetParam().model,
                                      "--objective",
                                      GetParam().objective,
                                      "--steps",
                                      "6",
                                      "--checkpoint-every",
                                      "2",
                                      "--out",
                                      out};
    if (FindObjective(GetParam().objective).learns_tasks()) {
      words = Joined(words,
                     {"--task", "stories", "--task-data", std::string(std::getenv("CROSSTALK_SOURCE")) + "/examples"});
    }
    return TinyTrain(Joined(words, more));
  }
};

TEST_P(EveryModelTest, ResumesToTheSameBitsOnAnyNumberOfThreads) {
  const TempDir dir;
  const CommandResult whole = RunCommand(Train(dir / "whole"));
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  ASSERT_EQ(RunCommand(Train(dir / "cut")).exit_code, 0);
  std::filesystem::remove_all(dir / "cut/checkpoints/step-00000006");  // as if it had been killed after step 4
  std::filesystem::remove(dir / "cut/model.safetensors");
  const CommandResult resumed = RunCommand({"train", "--out", dir / "cut", "--resume", "auto", "--threads", "3"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_TRUE(ReadBytes(dir / "cut/model.safetensors") == ReadBytes(dir / "whole/model.safetensors"));
}

// In bfloat16 training rounds weights as it reads them, eval once.
TEST_P(EveryModelTest, EvalRepeatsTheLastMeasure) {
  const TempDir dir;
  for (const char* precision : {"fp32", "bf16"}) {
    const CommandResult trained = RunCommand(Train(dir / precision, {"--precision", precision, "--json"}));
    ASSERT_EQ(trained.exit_code, 0) << trained.errors;
    const CommandResult measured = RunCommand({"eval", "--run", dir / precision, "--json"});
    ASSERT_EQ(measured.exit_code, 0) << measured.errors;
    const Json before = ParseJson(trained.output, "train").At("evaluation");
    const Json after = ParseJson(measured.output, "eval");
    for (const auto& [key, value] : before.AsObject()) EXPECT_EQ(after.At(key), value) << precision << ": " << key;
  }
}

TEST_P(EveryModelTest, ItsOwnConfigurationStartsItAgain) {
  const TempDir dir;
  ASSERT_EQ(RunCommand(Train(dir / "run")).exit_code, 0);
  const Json run = ParseJson(ReadBytes(dir / "run/run.json"), "run.json");
  WriteBytes(dir / "config.json", run.At("configuration").Dump());
  const CommandResult again =
      RunCommand({"train", "--config", dir / "config.json", "--out", dir / "again", "--threads", "1"});
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_TRUE(ReadBytes(dir / "again/model.safetensors") == ReadBytes(dir / "run/model.safetensors"));
}

TEST_P(EveryModelTest, DryRunCountsWhatTrainingHas) {
  const TempDir dir;
  const CommandResult dry = RunCommand(Train(dir / "run", {"--dry-run", "--json"}));
  ASSERT_EQ(dry.exit_code, 0) << dry.errors;
  const CommandResult trained = RunCommand(Train(dir / "run", {"--json"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  EXPECT_EQ(ParseJson(dry.output, "dry").At("parameters"), ParseJson(trained.output, "trained").At("parameters"));
  EXPECT_GT(ParseJson(dry.output, "dry").At("multiplications_per_step").AsInt(), 0);
}

TEST_P(EveryModelTest, ContinuesToTheBitsOfItsConfiguration) {
  const TempDir dir;
  ASSERT_EQ(RunCommand(Train(dir / "run")).exit_code, 0);
  const CommandResult continued = RunCommand({"train", "--resume", dir / "run", "--steps", "10", "--threads", "3"});
  ASSERT_EQ(continued.exit_code, 0) << continued.errors;
  const Json run = ParseJson(ReadBytes(dir / "run/run.json"), "run.json");
  WriteBytes(dir / "config.json", run.At("configuration").Dump());
  const CommandResult at_once =
      RunCommand({"train", "--config", dir / "config.json", "--out", dir / "at-once", "--threads", "1"});
  ASSERT_EQ(at_once.exit_code, 0) << at_once.errors;
  EXPECT_TRUE(ReadBytes(dir / "run/model.safetensors") == ReadBytes(dir / "at-once/model.safetensors"));
}

TEST_P(EveryModelTest, BeginsWithTheWeightsOfAnotherRun) {
  const TempDir dir;
  ASSERT_EQ(RunCommand(Train(dir / "origin")).exit_code, 0);
  const TensorFile before = ReadSafetensors(dir / "origin/model.safetensors");
  const std::string& frozen = before.tensors[0].name;
  const std::vector<std::string> warm = {
      "train",   "--init-from", dir / "origin",   "--seed", "5",       "--frozen", frozen,
      "--steps", "4",           "--eval-batches", "1",      "--batch", "4",        "--threads"};
  for (const char* threads : {"1", "3"}) {
    const CommandResult result = RunCommand(Joined(warm, {threads, "--out", dir / threads}));
    ASSERT_EQ(result.exit_code, 0) << result.errors;
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
