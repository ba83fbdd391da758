#include "crosstalk/models/training/task_results.h"

#include <gtest/gtest.h>

#include "crosstalk/models/training/run.h"
#include "crosstalk/models/training/trained.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_models.h"
#include "tests/support/tiny_run.h"

namespace crosstalk::task_results_test {

TrainingConfig Config(const std::string& attention, uint64_t seed = 3) {
  TrainingConfig config = *TinyConfig();
  config.model.attention.kind = ParseName<AttentionKind>("attention", attention);
  config.optimization.seed = seed;
  return config;
}

void Train(const TrainingConfig& config, const std::string& folder) {
  TrainingRun(ResolvedConfig(config), folder, {}, {}).Train();
}

RunMixing Mixing(const std::string& folder) { return MixingOfRun(folder, OpenRun(folder)); }

std::vector<double> Values(const MixingState& state, size_t layer, const char* name) {
  return state.layers.at(layer).Find(name)->values.ToVector<double>();
}

TEST(RunMixingTest, TheStartIsMadeAnewFromConfigurationAndSeed) {
  const TempDir dir;
  const TrainingConfig config = Config("talking");
  TrainingRun run(ResolvedConfig(config), dir / "run", {}, {});
  const std::vector<HeadProjectionTensor> start = StaticHeadProjections(run.model());
  std::vector<std::vector<float>> values;
  for (const HeadProjectionTensor& one : start) values.push_back(one.values.ToVector<float>());
  run.Train();
  const RunMixing mixing = Mixing(dir / "run");
  ASSERT_TRUE(mixing.initial);
  EXPECT_EQ(mixing.initial->label, "initial values, seed 3");
  EXPECT_EQ(mixing.current.label, "step 4");
  ASSERT_EQ(mixing.initial->layers.size(), 3u);
  for (size_t i = 0; i < start.size(); ++i) {
    const Tensor again = mixing.initial->layers[i / 2].Find(start[i].name)->values;
    EXPECT_EQ(again.To(DType::kFloat32).ToVector<float>(), values[i]) << start[i].layer << start[i].name;
  }
  EXPECT_NE(Values(*mixing.initial, 0, "P_l"), Values(mixing.current, 0, "P_l"));
}

TEST(RunMixingTest, ARunThatBeganWithOthersWeightsStartsThereAsLongAsTheyAreThere) {
  const TempDir dir;
  Train(Config("talking"), dir / "first");
  TrainingConfig config = Config("talking", 8);
  config.optimization.init_from = dir / "first";
  Train(config, dir / "second");
  ASSERT_FALSE(std::filesystem::exists(dir / "second/checkpoints/step-00000000"));  // of which the last one is kept
  const RunMixing mixing = Mixing(dir / "second");
  ASSERT_TRUE(mixing.initial) << mixing.no_initial;
  EXPECT_EQ(Values(*mixing.initial, 2, "P_w"), Values(Mixing(dir / "first").current, 2, "P_w"));

  std::filesystem::remove_all(dir / "first");
  for (const char* says : {"not there any more", "other weights"}) {
    const RunMixing without = Mixing(dir / "second");
    EXPECT_FALSE(without.initial);
    EXPECT_NE(without.no_initial.find(says), std::string::npos) << without.no_initial;
    if (says[0] == 'n') Train(Config("talking", 77), dir / "first");
  }
}

// A configuration that asks for another model than the one that is there is not obeyed, whatever memory it would take.
TEST(RunMixingTest, AConfigurationThatIsNotTheModelsGivesNoStart) {
  const TempDir dir;
  TrainingConfig config = Config("talking");
  Train(config, dir / "run");
  config.model.d_ff = 16'000'000;
  const std::string checkpoint = dir / "run/checkpoints/step-00000004";
  const Json json = ParseJson(ReadBytes(checkpoint + "/config.json"), "config");
  Json changed = json;
  changed.Set("training", ToJson(*ResolvedConfig(config)));
  std::vector<CheckpointFile> files = {BytesFile("config.json", changed.DumpPretty())};
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json", "tokenizer.json"}) {
    files.push_back(BytesFile(name, ReadBytes(checkpoint + "/" + name)));
  }
  CheckpointStore(dir / "run/checkpoints").Save(4, files);
  const RunMixing mixing = Mixing(dir / "run");
  EXPECT_FALSE(mixing.initial);
  EXPECT_NE(mixing.no_initial.find("not that of its model"), std::string::npos) << mixing.no_initial;
}

}  // namespace crosstalk::task_results_test
