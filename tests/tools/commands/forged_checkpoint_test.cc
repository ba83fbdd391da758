// A checkpoint whose files are whole and signed, but whose configuration is not that of its tensors: refused as a data
// file at once, with nothing allocated that the file does not hold.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/run.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/storage.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace forged_checkpoint_test {

// Calls use(forged) with each copy of `json` in which one number has another value.
void ForEachForgedNumber(const Json& json,
                         const std::function<void(const Json& forged, const std::string& what)>& use) {
  if (!json.is_object()) return;
  for (const auto& [key, member] : json.AsObject()) {
    const auto with = [&, name = key](const Json& value, const std::string& what) {
      use(Json(json).Set(name, value), name + what);
    };
    if (member.is_number()) {
      for (const Json& value : {Json(int64_t{1} << 31), Json(int64_t{1} << 62), Json(-7), Json(0), Json(1e300)}) {
        with(value, " = " + value.Dump());
      }
    } else {
      ForEachForgedNumber(member, [&](const Json& forged, const std::string& what) { with(forged, "." + what); });
    }
  }
}

constexpr char kTraining[] = "\"training\": {";

struct Forgery {
  std::string from, to, says = "", part = "\"model\": {";
};

class ForgedCheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Succeeded(RunCommand(TinyTrain({"--steps", "2", "--out", dir_ / "run"})));
    honest_ = dir_ / "run/checkpoints/step-00000002";
  }

  // The checkpoint with this config.json, signed again.
  std::string WithConfig(const std::string& config) {
    std::vector<CheckpointFile> files;
    for (const std::string& name : ListDirectory(honest_)) {
      if (name == "manifest.json") continue;
      files.push_back(BytesFile(name, name == "config.json" ? config : ReadBytes(honest_ + "/" + name)));
    }
    CheckpointStore store(dir_ / ("forged-" + std::to_string(++forged_)));
    return store.Save(2, files).path;
  }

  // The checkpoint with each `from` in its part of config.json replaced, signed again.
  std::string Forged(const Forgery& forgery) {
    const std::string &from = forgery.from, &to = forgery.to, &part = forgery.part;
    std::string bytes = ReadBytes(honest_ + "/config.json");
    size_t at = bytes.find(part);
    const auto find = [&] {
      at = bytes.find(from, at);
      return at < bytes.find("\n  }", bytes.find(part));
    };
    EXPECT_TRUE(find()) << from;
    while (find()) {
      bytes.replace(at, from.size(), to);
      at += to.size();
    }
    return WithConfig(bytes);
  }

  TempDir dir_;
  std::string honest_;
  int forged_ = 0;
};

TEST_F(ForgedCheckpointTest, IsRefusedByFileAndKeyOrTensor) {
  // Text of any length is shown in part.
  const std::string text(1'000'000, 'x');
  const std::vector<Forgery> cases = {
      {R"("encoder_layers": 1)", R"("encoder_layers": 2147483648)", "config.json: model: encoder_layers"},
      {R"("decoder_layers": 1)", R"("decoder_layers": 9223372036854775807)", "config.json: model: decoder_layers"},
      {R"("encoder_layers": 1)", R"("encoder_layers": 1000)", "has no tensor 'encoder.block_1."},
      {R"("d_ff": 24)", R"("d_ff": 1000000000000)", "config.json: model asks for float32[16, 1000000000000]"},
      {R"("d_ff": 24)", R"("d_ff": 4611686018427387904)", "config.json: model"},
      {R"("h_k": 2)", R"("h_k": 1000000000)", "config.json: model asks for float32[16, 1000000000, 8]"},
      {R"("d_k": 8)", R"("d_k": 4294967296)", "config.json: model asks for float32[16, 2, 4294967296]"},
      {R"("h": 2)", R"("h": 4294967296)", "config.json: model asks for"},
      {R"("h_k": 2)", R"("h_k": 0)", "config.json: model: encoder_self.h_k"},
      {R"("form": "projected")", R"("form": "bilinear")", "config.json: model: encoder_self.h_k"},
      {R"("classifier": "tied")", R"("classifier": "untied")", "has no tensor 'classifier.table'"},
      {R"("key_value": "separate")", R"("key_value": "tied")", "is not a parameter of the model"},
      {R"("mask": -1)", R"("mask": 999)", "config.json: model: tokens.mask: id 999"},
      {R"("pad": 0)", R"("pad": -1)", "config.json: model: tokens.pad: is missing"},
      {R"("norm_epsilon": 1e-06)", R"("norm_epsilon": 1e300)", "config.json: model: norm_epsilon"},
      {R"("relative_buckets": 32)", R"("relative_buckets": 2147483648)", "config.json: model: relative_buckets"},
      {R"("classifier": "tied")", R"("classifier": ")" + text + "\""},
      {R"("form": "projected")", R"("form": ")" + text + "\""},
      {R"("P_l")", "\"" + text + "\""},
      {R"("model": "t5")", R"("model": ")" + text + "\""},
      {R"("d_ff": 24)", "\"" + text + "\": 24"},
      {R"("d_ff": 24)", "\"d_ff\": 24, \"" + text + "\": 24, \"" + text + "\": 1"},
      {R"("d_ff": 24)", "\"d_ff\": " + text},
      {R"("d_ff": 24)", "\"d_ff\": " + std::string(1'000'000, '1')},
      {R"("scale": 1.0)", "\"scale\": \"" + text + "\""},
      // What cannot be trained is the file's fault too.
      {R"("shards": 1)", R"("shards": 30)", "config.json: training: ", kTraining},
      {R"("heads": 2)", R"("heads": 7)", "config.json: training: ", kTraining},
      {R"("layers": 1,)", R"("layers": 2147483648,)", "config.json: training: ", kTraining},
      {R"("input_length": 16)", R"("input_length": 1099511627776)", "config.json: training: ", kTraining},
      {R"("optimizer": "adafactor")", R"("optimizer": "sgd")", "config.json: training: ", kTraining},
  };
  for (const Forgery& forged : cases) {
    const auto begin = std::chrono::steady_clock::now();
    const CommandResult result = ExpectExit(RunCommand({"eval", "--checkpoint", Forged(forged)}), 3, {forged.says});
    EXPECT_LT(result.errors.size(), 1000u) << forged.to.substr(0, 40) << ": " << result.errors.substr(0, 300);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << forged.to.substr(0, 40);
  }
}

TEST_F(ForgedCheckpointTest, NoNumberOfAModelsConfigurationTakesMoreThanTheFileHolds) {
  for (const std::string& model : ModelNames()) {
    Succeeded(RunCommand(TinyTrain({"--model", model, "--steps", "2", "--out", dir_ / model})));
    honest_ = dir_ / (model + "/checkpoints/step-00000002");
    const auto bytes = static_cast<int64_t>(std::filesystem::file_size(honest_ + "/model.safetensors"));
    const Json config = ReadJsonFile(honest_ + "/config.json");
    int refused = 0;
    ForEachForgedNumber(config.At("model"), [&](const Json& forged, const std::string& what) {
      const int64_t live = GetMemoryStats().live_bytes;
      ResetPeakMemory();
      try {
        LoadModel(ReadModelConfig(forged, "config.json: model"), "config.json: model",
                  ReadSafetensors(honest_ + "/model.safetensors"));
      } catch (const Error& error) {
        ++refused;
        EXPECT_EQ(error.kind(), ErrorKind::kData) << model << ": " << what << ": " << error.what();
        EXPECT_NE(std::string(error.what()).find("config.json: model"), std::string::npos) << what << error.what();
      }
      EXPECT_LE(GetMemoryStats().peak_bytes - live, 2 * bytes) << model << ": " << what;
    });
    EXPECT_GT(refused, 20) << model;
  }
}

// A new run takes over what an origin says of its model: sizes that its tensors have not are refused before anything of
// these sizes is made.
TEST_F(ForgedCheckpointTest, AnOriginTakesNoMoreThanItsFilesHold) {
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(honest_ + "/model.safetensors"));
  const std::vector<Forgery> cases = {
      {R"("d_model": 16)", R"("d_model": 131072)", "the configuration asks for float32"},
      {R"("d_ff": 24)", R"("d_ff": 16777216)", "the configuration asks for float32[16, 16777216]"},
      {R"("layers": 1,)", R"("layers": 1000,)", "which the configuration asks for"},
      {R"("key_size": null)", R"("key_size": 16777216)", "the configuration asks for float32"},
      {R"("relative_buckets": 32)", R"("relative_buckets": 64)", "the configuration asks for float32"},
      {R"("keys_values": "separate")", R"("keys_values": "tied")", "is not a parameter of the model"},
      {R"("input_length": 16)", R"("input_length": 16777216)", "this machine has"},
      {R"("init_from": "")", R"("init_from": "elsewhere")", "origin"},
  };
  for (const Forgery& forged : cases) {
    TrainingConfig config;
    config.optimization.init_from = Forged({forged.from, forged.to, "", kTraining});
    const int64_t live = GetMemoryStats().live_bytes;
    ResetPeakMemory();
    try {
      TakeModelOf(LoadOrigin(config.optimization.init_from, TrainedParts::kConfig).config, config);
      TrainingRun(ResolvedConfig(config), dir_ / "warm", {}, {});
      ADD_FAILURE() << forged.to;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), forged.says == "this machine has" ? ErrorKind::kResource : ErrorKind::kData)
          << error.what();
      EXPECT_NE(std::string(error.what()).find(forged.says), std::string::npos) << forged.to << ": " << error.what();
    }
    if (forged.says != "this machine has") {
      EXPECT_LE(GetMemoryStats().peak_bytes - live, 2 * bytes) << forged.to;
    }
    EXPECT_FALSE(std::filesystem::exists(dir_ / "warm")) << forged.to;
  }
}

// What `eval` refuses of a checkpoint is refused of an origin.
TEST_F(ForgedCheckpointTest, AnOriginsModelIsReadToo) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("vocabulary": 359)", R"("vocabulary": 358)"},
      {R"("end": 1)", R"("end": 500)"},
      {R"("pad": 0)", R"("pad": -1)"},
      {R"("norm_epsilon": 1e-06)", R"("norm_epsilon": 0)"},
  };
  for (const auto& [from, to] : cases) {
    const std::string forged = Forged({from, to});
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"eval", "--checkpoint", forged},
          {"train", "--init-from", forged, "--out", dir_ / "warm", "--steps", "1", "--threads", "1"},
          {"train", "--init-from", forged, "--dry-run"}}) {
      ExpectExit(RunCommand(command), 3, {forged, "model"});
    }
    EXPECT_FALSE(std::filesystem::exists(dir_ / "warm")) << to;
  }
}

// A line for the one member that differs, not both models whole.
TEST_F(ForgedCheckpointTest, WhatIsResumedOfAnotherModelIsNamedByItsMember) {
  const std::string forged = Forged({R"("norm_epsilon": 1e-06)", R"("norm_epsilon": 1e-05)"});
  ExpectExit(RunCommand({"train", "--resume", forged, "--out", dir_ / "fork", "--threads", "1"}), 3,
             {"is of another configuration:\n  model.norm_epsilon: 1e-06 here, 1e-05 there\ntrain in"});
  std::string many = R"("d_ff": 24)";
  for (int i = 0; i < 10'000; ++i) many += ", \"other_" + std::to_string(i) + "\": 1";
  const CommandResult other = ExpectExit(
      RunCommand({"train", "--resume", Forged({R"("d_ff": 24)", many}), "--out", dir_ / "fork", "--threads", "1"}), 3);
  EXPECT_LT(other.errors.size(), 3000u);
}

}  // namespace forged_checkpoint_test
}  // namespace crosstalk
