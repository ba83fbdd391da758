// A run that begins with another's weights.
#include "crosstalk/models/training/trained.h"

#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/run.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/storage.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::trained_test {

void Train(const TrainingConfig& config, const std::string& folder, ResumeOptions::From from = {},
           TrainingObserver observer = {}) {
  TrainingRun(ResolvedConfig(config), folder, {.from = from, .path = ""}, std::move(observer)).Train();
}

class OriginTest : public ::testing::Test {
 protected:
  void SetUp() override { Train(Cold(), dir_ / "origin"); }

  static TrainingConfig Cold() {
    TrainingConfig config = *TinyConfig();
    config.run.checkpoint_every = 0;
    return config;
  }
  // Another seed, optimizer, schedule and number of steps than the origin's.
  TrainingConfig Warm() const {
    TrainingConfig config = Cold();
    config.optimization.init_from = dir_ / "origin";
    config.optimization.optimizer = OptimizerKind::kAdamW;
    config.optimization.schedule = ScheduleKind::kLinear;
    config.optimization.learning_rate = 0.01;
    config.optimization.steps = 3;
    config.optimization.warmup = 1;
    config.optimization.seed = 8;
    config.optimization.frozen = "encoder,*.P_l";
    return config;
  }
  std::string Model(const std::string& run) const { return ReadFile(dir_ / (run + "/model.safetensors")); }
  std::string OriginCheckpoint() const { return dir_ / "origin/checkpoints/step-00000004"; }

  TempDir dir_;
};

// Be the origin a run or a checkpoint.
TEST_F(OriginTest, TrainsAsOneDoesByHandFromTheseWeights) {
  TrainingConfig warm = Warm();
  Train(warm, dir_ / "warm");
  warm.optimization.init_from = OriginCheckpoint();
  Train(warm, dir_ / "of-checkpoint");

  const ResolvedConfig config(warm);
  const TrainingData data = OpenTrainingData(*config);
  const auto model = MakeModel(ConfigureModel(*config, VocabularyOf(*config, data.tokenizer.get())), 1);
  LoadParameters(ReadSafetensors(OriginCheckpoint() + "/model.safetensors"), *model);
  std::vector<NamedParameter> trained;
  for (const NamedParameter& parameter : model->Parameters()) {
    if (!parameter.name.starts_with("encoder.") && !parameter.name.ends_with(".P_l")) trained.push_back(parameter);
  }
  const auto optimizer = MakeOptimizer(config->optimization, trained);
  const auto batches = MakeBatches(*config, data, {0});
  LocalReducer reducer;
  Loop(*model, *batches, *optimizer, reducer, MakeLoopOptions(config->optimization)).Train(3);
  WriteSafetensors(dir_ / "by-hand.safetensors", ParameterTensors(*model));
  for (const char* run : {"warm", "of-checkpoint"}) EXPECT_TRUE(Model(run) == ReadFile(dir_ / "by-hand.safetensors"));
}

TEST_F(OriginTest, IsRecordedAndNeededOnce) {
  Train(Warm(), dir_ / "whole");
  TrainingObserver observer;
  observer.step = [](const StepResult&) { throw std::runtime_error("killed"); };
  EXPECT_THROW(Train(Warm(), dir_ / "cut", {}, observer), std::runtime_error);
  const CheckpointStore store(dir_ / "cut/checkpoints");
  EXPECT_EQ(store.Steps(), std::vector<int64_t>{0});
  const Checkpoint origin = VerifyCheckpoint(OriginCheckpoint());
  const Json recorded = RunFolder(dir_ / "cut").ReadRunFile().At("origin");
  EXPECT_EQ(recorded, ToJson(Origin{OriginCheckpoint(), 4, origin.checksums.at("model.safetensors")}));
  EXPECT_EQ(VerifyCheckpoint(store.PathOf(0)).checksums.at("model.safetensors"),
            origin.checksums.at("model.safetensors"));
  std::filesystem::remove_all(dir_ / "origin");
  Train(Warm(), dir_ / "cut", ResumeOptions::From::kNewest);
  EXPECT_TRUE(Model("cut") == Model("whole"));
  EXPECT_EQ(RunFolder(dir_ / "cut").ReadRunFile().At("origin"), recorded);
}

TEST_F(OriginTest, ARunOfAnotherOriginIsNotResumed) {
  Train(Warm(), dir_ / "warm");
  TrainingConfig config = Warm();
  const auto resume = [&] { Train(config, dir_ / "warm", ResumeOptions::From::kNewest); };
  config.optimization.init_from = "";
  testing::ExpectError(resume, ErrorKind::kData, {"init_from: initial values here, weights crc64:"});
  std::filesystem::copy(dir_ / "origin", dir_ / "moved", std::filesystem::copy_options::recursive);
  config.optimization.init_from = dir_ / "moved";
  EXPECT_NO_THROW(resume());
  TrainingConfig other = Cold();
  other.optimization.seed = 5;
  Train(other, dir_ / "other");
  config.optimization.init_from = dir_ / "other";
  testing::ExpectError(resume, ErrorKind::kData, {"other/checkpoints/step-00000004 here, weights crc64:"});
  // After the loss of all checkpoints the weights are read again, and must be the same.
  const std::string model = Model("warm");
  std::filesystem::remove_all(dir_ / "warm/checkpoints");
  testing::ExpectError(resume, ErrorKind::kData, {"other/checkpoints/step-00000004 here, weights crc64:"});
  EXPECT_TRUE(Model("warm") == model);
  config.optimization.init_from = dir_ / "moved";
  resume();
  EXPECT_TRUE(Model("warm") == model);
  config = Cold();
  config.optimization.init_from = dir_ / "other";
  testing::ExpectError([&] { Train(config, dir_ / "origin", ResumeOptions::From::kNewest); }, ErrorKind::kData,
                       {"here, initial values there"});
}

TEST_F(OriginTest, TheModelAndTheTokenizerAreTakenOver) {
  TrainingConfig origin = *TinyConfig(), config;
  origin.objective.name = "span-corruption";
  origin.model.dropout_rate = 0.2;
  origin.data.text = "elsewhere";
  origin.data.validation = "there";
  config.data.text = "here";
  config.optimization.seed = 9;
  config.optimization.steps = 77;
  const TrainingConfig before = config;
  // The titles of the help decide nothing.
  auto& fields = const_cast<FieldTable<TrainingConfig>&>(TrainingFields());
  std::vector<std::string> titles;
  for (Field<TrainingConfig>& field : fields) titles.push_back(std::exchange(field.group, "Title"));
  TakeModelOf(origin, config);
  EXPECT_EQ(FixedFields().size(), ModelFields().size() - 3);
  for (size_t i = 0; i < fields.size(); ++i) fields[i].group = titles[i];
  for (const Field<TrainingConfig>& field : fields) {
    const bool of_origin = field.group == "Model" || field.group == "Tasks" ||
                           (field.group == "Data" && !field.options.read_by.choices.empty()) ||
                           field.key == "objective" || field.key == "input_length" || field.key == "tokenizer" ||
                           field.key == "vocabulary";
    const bool is_text = field.key == "data" || field.key == "validation" || field.key == "corpus";
    EXPECT_EQ(field.get(config), field.get(of_origin && !is_text ? origin : before)) << field.key;
  }
}

TEST_F(OriginTest, WeightsThatAreNotFiniteAreTheFilesFault) {
  TensorFile file = ReadSafetensors(OriginCheckpoint() + "/model.safetensors");
  file.tensors[0].tensor.data<float>()[3] = std::numeric_limits<float>::infinity();
  std::vector<CheckpointFile> files;
  for (const std::string& name : ListDirectory(OriginCheckpoint())) {
    if (name == "model.safetensors") {
      files.push_back({name, [&](FileWriter& writer) { WriteSafetensors(writer, file.tensors); }});
    } else if (name != "manifest.json") {
      files.push_back(BytesFile(name, ReadFile(OriginCheckpoint() + "/" + name)));
    }
  }
  TrainingConfig config = Warm();
  config.optimization.init_from = CheckpointStore(dir_ / "infinite").Save(4, files).path;
  testing::ExpectError([&] { Train(config, dir_ / "warm"); }, ErrorKind::kData, {"[3] is inf"});
  EXPECT_FALSE(std::filesystem::exists(dir_ / "warm"));
}

// Nothing is wrong with it.
TEST_F(OriginTest, ARunWithoutItsFirstCheckpointIsToBeWaitedFor) {
  TrainingConfig config = Cold();
  config.run.checkpoint_every = 3;
  int asked = 0;
  TrainingObserver observer;
  observer.step = [&](const StepResult& step) {
    if (step.step != 2) return;
    const std::vector<std::function<void()>> uses = {
        [&] { OpenRun(dir_ / "young"); }, [&] { OpenRun(dir_ / "young", {.which = WhichCheckpoint::kBest}); },
        [&] { LoadOrigin(dir_ / "young", TrainedParts::kModel); }};
    for (const auto& use : uses) {
      testing::ExpectError(use, ErrorKind::kData,
                           {"young: has no checkpoint yet; its training saves them by checkpoint_every = 3"});
      ++asked;
    }
  };
  Train(config, dir_ / "young", {}, observer);
  EXPECT_EQ(asked, 3);
  // Checkpoints that a finished run has lost do not come.
  std::filesystem::remove_all(dir_ / "young/checkpoints");
  testing::ExpectError([&] { OpenRun(dir_ / "young"); }, ErrorKind::kData, {"young: has no good checkpoint"});
}

// One run begins with another's weights again and again while that one saves and prunes.
TEST_F(OriginTest, AnOriginMayBeTrainingMeanwhile) {
  TrainingObserver observer;
  observer.step = [&](const StepResult& step) {
    if (step.step == 1) return;
    TrainingConfig config = Cold();
    config.optimization.init_from = dir_ / "busy";
    config.optimization.steps = 1;
    const std::string folder = dir_ / ("warm-" + std::to_string(step.step));
    Train(config, folder);
    EXPECT_EQ(RunFolder(folder).ReadRunFile().At("origin").At("step").AsInt(), step.step - 1);
  };
  Train(*TinyConfig(), dir_ / "busy", {}, observer);
}

}  // namespace crosstalk::trained_test
