#include "crosstalk/models/interop/import.h"

#include "crosstalk/models/interop/export.h"
#include "crosstalk/models/training/trained.h"
#include "tests/support/bundles.h"
#include "tests/support/parity.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::import_test {

// Whenever it is asked to stop, nothing is left, not even under another name.
TEST(ImportTest, InterruptedItLeavesNothingAndNeitherDoesAnExport) {
  const Trained albert = Open(ParityFolder("albert_groups1"), {.tokenizer = TokenizerUse::kNone});
  const Trained t5 = Made(SmallConfig());
  const std::function<void(const std::string& path, const StopRequest& stop)> kWrites[] = {
      [](const auto& path, const auto& stop) { ImportModel(ParityFolder("albert_groups1"), path, {.stop = stop}); },
      [&](const auto& path, const auto& stop) { ExportModel(albert, path, {.stop = stop}); },
      [&](const auto& path, const auto& stop) {
        ExportModel(t5, path, {.format = PublishedFormat::kMesh, .stop = stop});
      }};
  for (const auto& write : kWrites) {
    int calls = 0;
    for (bool interrupted = true; interrupted;) {
      const TempDir dir;
      int left = ++calls;
      interrupted = false;
      try {
        write(dir / "model", [&] { return --left == 0; });
      } catch (const Interrupted&) {
        interrupted = true;
      }
      EXPECT_EQ(ListDirectory(dir.path()).size(), interrupted ? 0u : 1u) << calls;
    }
    EXPECT_GT(calls, 2);
  }
}

// The fields of a training configuration say what the model is, as far as they can.
TEST(ImportTest, ItsTrainingConfigurationSaysItsSizes) {
  const TempDir dir;
  ImportModel(ParityFolder("albert_groups1"), dir / "model", {.attention = AttentionKind::kTalking});
  const Json config = ToJson(ReadRunConfig(RunFolder(dir / "model")));
  const std::map<std::string, std::string> expected = {{"model", "\"albert\""},
                                                       {"attention", "\"talking\""},
                                                       {"mixing_init", "\"identity\""},
                                                       {"heads", "4"},
                                                       {"attention_scale", "\"explicit\""},
                                                       {"d_model", "48"},
                                                       {"d_ff", "96"},
                                                       {"layers", "3"},
                                                       {"embedding_size", "32"},
                                                       {"layer_groups", "1"},
                                                       {"max_positions", "40"},
                                                       {"feed_forward", "\"gelu-tanh\""},
                                                       {"positions", "\"learned\""}};
  for (const auto& [field, value] : expected) EXPECT_EQ(config.At(field).Dump(), value) << field;
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

TEST(ExportTest, ALanguageModelHasNoPublishedForm) {
  const ResolvedConfig config{TrainingConfig()};
  Trained any;
  any.model = MakeModel(ConfigureModel(*config, VocabularyOf(*config, nullptr)), 1);
  const TempDir dir;
  EXPECT_THROW(ExportModel(any, dir / "out", {}), Error);
}

}  // namespace crosstalk::import_test
