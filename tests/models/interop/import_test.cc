#include "crosstalk/models/interop/import.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "crosstalk/models/interop/export.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/safetensors.h"
#include "tests/support/messages.h"
#include "tests/support/parity.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace import_test {

// Whenever it is asked to stop, nothing is left, not even under another name.
TEST(ImportTest, InterruptedItLeavesNothing) {
  for (int calls = 1;; ++calls) {
    const TempDir dir;
    int left = calls;
    const StopRequest stop = [&] { return --left == 0; };
    try {
      ImportModel(ParityFolder("albert_groups1"), dir / "model", {.stop = stop});
    } catch (const Interrupted&) {
      EXPECT_TRUE(ListDirectory(dir.path()).empty()) << calls;
      continue;
    }
    EXPECT_GT(calls, 2);
    EXPECT_EQ(ListDirectory(dir.path()).size(), 1u);
    return;
  }
}

// The fields of a training configuration say what the model is, as far as they can.
TEST(ImportTest, ItsTrainingConfigurationSaysItsSizes) {
  const TempDir dir;
  ImportModel(ParityFolder("albert_groups1"), dir / "model", {.attention = AttentionKind::kTalking});
  const TrainingConfig config = ReadRunConfig(RunFolder(dir / "model"));
  EXPECT_EQ(config.model.name, "albert");
  EXPECT_EQ(config.model.attention.kind, AttentionKind::kTalking);
  EXPECT_EQ(config.model.mixing_init, MixingInit::kIdentity);
  EXPECT_EQ(config.model.attention.heads, 4);
  EXPECT_EQ(config.model.attention_scale, AttentionScale::kExplicit);
  EXPECT_EQ(config.model.d_model, 48);
  EXPECT_EQ(config.model.d_ff, 96);
  EXPECT_EQ(config.model.layers, 3);
  EXPECT_EQ(config.model.embedding_size, 32);
  EXPECT_EQ(config.model.layer_groups, 1);
  EXPECT_EQ(config.model.max_positions, 40);
  EXPECT_EQ(config.model.feed_forward, FeedForwardKind::kGeluTanh);
  EXPECT_EQ(config.model.positions, PositionScheme::kLearned);
}

std::map<std::string, std::string> TypesIn(const std::string& folder) {
  std::map<std::string, std::string> types;
  for (const TensorFileEntry& entry : ReadSafetensorsHeader(folder + "/model.safetensors").entries) {
    types[entry.name] = entry.dtype;
  }
  return types;
}

// A model that came in 16 bits and has been changed since: what does not fit any more is float32, and it is said.
TEST(ExportTest, SixteenBitsAreKeptWhereTheyHoldEveryValue) {
  const TempDir dir;
  Trained any = Open(ParityFolder("bert_pretraining"), {.tokenizer = TokenizerUse::kNone});
  for (PublishedRecord::StoredTensor& tensor : any.imported->record.tensors) tensor.dtype = "F16";
  for (const NamedParameter& parameter : any.model->Parameters()) {
    parameter.value.value().Fill(parameter.name == "pooler.bias" ? 0.1 : 0.125);
  }
  const ExportResult result = ExportModel(any, dir / "kept", {});
  ASSERT_EQ(result.remarks.size(), 1u);
  EXPECT_NE(result.remarks[0].find("bert.pooler.dense.bias"), std::string::npos) << result.remarks[0];
  for (const auto& [name, type] : TypesIn(dir / "kept")) {
    EXPECT_EQ(type, name == "bert.pooler.dense.bias" ? "F32" : "F16") << name;
  }
  EXPECT_TRUE(ExportModel(any, dir / "rounded", {.dtype = ExportDType::kBFloat16}).remarks.empty());
  for (const auto& [name, type] : TypesIn(dir / "rounded")) EXPECT_EQ(type, "BF16") << name;
  EXPECT_EQ(ReadSafetensors(dir / "rounded/model.safetensors").At("bert.pooler.dense.bias").At({0}), 0.10009765625);
}

// Whenever it is asked to stop, nothing is left, not even under another name.
TEST(ExportTest, InterruptedItLeavesNothing) {
  const Trained any = Open(ParityFolder("albert_groups1"), {.tokenizer = TokenizerUse::kNone});
  for (int calls = 1;; ++calls) {
    const TempDir dir;
    int left = calls;
    const StopRequest stop = [&] { return --left == 0; };
    try {
      ExportModel(any, dir / "folder", {.stop = stop});
    } catch (const Interrupted&) {
      EXPECT_TRUE(ListDirectory(dir.path()).empty()) << calls;
      continue;
    }
    EXPECT_GT(calls, 2);
    EXPECT_EQ(ListDirectory(dir.path()).size(), 1u);
    return;
  }
}

TEST(ExportTest, ALanguageModelHasNoPublishedForm) {
  const ResolvedConfig config{TrainingConfig()};
  Trained any;
  any.model = MakeModel(ConfigureModel(*config, VocabularyOf(*config, nullptr)), 1);
  const TempDir dir;
  EXPECT_THROW(ExportModel(any, dir / "out", {}), Error);
}

}  // namespace import_test
}  // namespace crosstalk
