// Published names and layouts, and models on their way in and out.
#include "crosstalk/models/interop/import.h"

#include "crosstalk/models/bert/bert.h"
#include "crosstalk/models/interop/export.h"
#include "crosstalk/models/interop/names.h"
#include "crosstalk/models/text/encoding.h"
#include "crosstalk/models/training/trained.h"
#include "tests/support/bundles.h"
#include "tests/support/messages.h"
#include "tests/support/parity.h"
#include "tests/support/published_folder.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::import_test {

Tensor Counting(const Shape& shape) {
  const Tensor tensor = Tensor::Empty(shape, DType::kFloat32);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.data<float>()[i] = static_cast<float>(i);
  return tensor;
}

// {i} is a plain number, {z} one of three digits or more.
TEST(PublishedNamesTest, PatternsMatchNumbersOfTheirFormAlone) {
  for (const auto& [i, name] : {std::pair(12, "block_12.norm"), {0, "block_0.norm"}}) {
    EXPECT_EQ(MatchPattern("block_{i}.norm", name, 1), i);
  }
  for (const auto& [i, name] :
       {std::pair(0, "block_000/q"), {7, "block_007/q"}, {123, "block_123/q"}, {1234, "block_1234/q"}}) {
    EXPECT_EQ(ExpandPattern("block_{z}/q", i, 1), name);
    EXPECT_EQ(MatchPattern("block_{z}/q", name, 1), i);
  }
  for (const char* name :
       {"block_.norm", "block_01.norm", "block_1.normal", "block_1", "block_-1.norm", "block_99999999.norm",
        "block_1x.norm", "", "block_7/q", "block_07/q", "block_0007/q", "block_/q", "block_00x/q"}) {
    for (const char* pattern : {"block_{i}.norm", "block_{z}/q"}) {
      EXPECT_EQ(MatchPattern(pattern, name, 1), std::nullopt) << name;
    }
  }
  EXPECT_EQ(MatchPattern("shared", "shared", 1), -1);
}

TEST(PublishedNamesTest, GroupsAndTheirInnerLayersAreOneNumber) {
  const char* const pattern = "groups.{g}.layers.{j}.w";
  EXPECT_EQ(ExpandPattern(pattern, 7, 3), "groups.2.layers.1.w");
  EXPECT_EQ(MatchPattern(pattern, "groups.2.layers.1.w", 3), 7);
  EXPECT_EQ(MatchPattern(pattern, "groups.2.layers.3.w", 3), std::nullopt);
  ModelConfig config = BaseBert();
  config.inner_layers = 2;
  const PublishedNames names(kPublishedAlbert, &config);
  EXPECT_EQ(names.NamesOf("encoder.block_3.feed_forward.wi")[0].name,
            "albert.encoder.albert_layer_groups.1.albert_layers.1.ffn.weight");
  EXPECT_EQ(names.PathsOf("albert.encoder.albert_layer_groups.1.albert_layers.0.ffn.weight")[0].name,
            "encoder.block_2.feed_forward.wi");
}

// Each published name except the tied ones means one parameter, in every table.
TEST(PublishedNamesTest, TablesSayEachNameOnce) {
  std::vector<const PublishedForm*> forms = PublishedForms();
  forms.push_back(&kPublishedMeshT5);
  for (const PublishedForm* form : forms) {
    std::set<std::string> rows;
    const PublishedNames names(*form, nullptr);
    for (const PublishedRow& row : names.rows()) {
      EXPECT_TRUE(rows.insert(row.ours + " " + row.theirs).second) << row.ours << " " << row.theirs;
    }
  }
}

TEST(PublishedNamesTest, LayoutsTakeATensorThereAndBack) {
  struct Case {
    Layout layout;
    Shape ours, matrix, theirs;
    int64_t rows;
  };
  const Case cases[] = {
      {Layout::kSame, {5}, {}, {5}, 0},
      {Layout::kSame, {3, 4}, {3, 4}, {3, 4}, 0},
      {Layout::kFlat, {2, 3}, {}, {6}, 0},
      {Layout::kTransposed, {4, 6}, {4, 6}, {6, 4}, 0},
      {Layout::kTransposed, {5, 2, 3}, {5, 6}, {6, 5}, 0},  // P_q
      {Layout::kTransposed, {2, 3, 5}, {6, 5}, {5, 6}, 0},  // P_o
      {Layout::kTransposed, {1, 3, 5}, {3, 5}, {5, 3}, 0},
      {Layout::kRows, {128, 3}, {128, 3}, {100, 3}, 100},
      {Layout::kRows, {128, 3}, {128, 3}, {128, 3}, 128},
      {Layout::kMatrix, {5, 2, 3}, {5, 6}, {5, 6}, 0},  // P_q
      {Layout::kMatrix, {2, 3, 5}, {6, 5}, {6, 5}, 0},  // P_o
      {Layout::kColumns, {128, 3}, {128, 3}, {3, 100}, 100},
      {Layout::kColumns, {128, 3}, {128, 3}, {3, 128}, 128},
  };
  for (const Case& one : cases) {
    const Tensor theirs = Counting(one.theirs);
    const std::optional<Tensor> ours = FromPublished(theirs, one.layout, one.ours);
    ASSERT_TRUE(ours.has_value()) << one.ours;
    EXPECT_EQ(ours->shape(), one.ours);
    NamedParameter parameter{"x", Variable(*ours), one.matrix};
    const Tensor back = ToPublished(*ours, one.layout, parameter, one.rows);
    EXPECT_EQ(back.shape(), one.theirs);
    EXPECT_EQ(back.ToVector<float>(), theirs.ToVector<float>()) << one.ours;
  }
  // y = x·Wᵀ there, x·P here: element [in, out] is theirs at [out, in]; padding is zeros.
  EXPECT_EQ(FromPublished(Counting({6, 5}), Layout::kTransposed, {5, 2, 3})->At({4, 1, 0}), 3 * 5 + 4);
  EXPECT_EQ(FromPublished(Counting({5, 6}), Layout::kTransposed, {2, 3, 5})->At({1, 0, 4}), 4 * 6 + 3);
  EXPECT_EQ(FromPublished(Counting({5, 6}), Layout::kMatrix, {5, 2, 3})->At({4, 1, 0}), 4 * 6 + 3);
  EXPECT_EQ(FromPublished(Counting({3, 100}), Layout::kColumns, {128, 3})->At({99, 2}), 2 * 100 + 99);
  EXPECT_EQ(FromPublished(Tensor::Full({100, 3}, 7, DType::kFloat32), Layout::kRows, {128, 3})->At({100, 0}), 0);
}

TEST(PublishedNamesTest, ShapesThatDoNotFitAreNone) {
  EXPECT_FALSE(FromPublished(Counting({5}), Layout::kSame, {6}));
  EXPECT_FALSE(FromPublished(Counting({2, 3}), Layout::kFlat, {2, 3}));
  EXPECT_FALSE(FromPublished(Counting({6, 5}), Layout::kTransposed, {6, 5}));
  EXPECT_FALSE(FromPublished(Counting({30}), Layout::kTransposed, {5, 2, 3}));
  EXPECT_FALSE(FromPublished(Counting({6, 5}), Layout::kMatrix, {5, 2, 3}));
  EXPECT_FALSE(FromPublished(Counting({100, 3}), Layout::kColumns, {128, 3}));
  EXPECT_FALSE(FromPublished(Counting({100}), Layout::kColumns, {128, 1}));
  EXPECT_FALSE(FromPublished(Counting({100, 3}), Layout::kRows, {256, 3}));
  EXPECT_FALSE(FromPublished(Counting({129, 3}), Layout::kRows, {128, 3}));
  EXPECT_FALSE(FromPublished(Counting({2, 2}), Layout::kTransposed, {int64_t{1} << 33, int64_t{1} << 33, 2}));
}

// ---- Models on their way in and out ----

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
  ImportModel(ParityFolder("albert_groups1"), dir / "model", {.attention = {AttentionKind::kTalking}});
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

// In each family: the same bits from the composed implementation, to rounding from the fused one, and the kind in the
// configuration, which a run that begins there has.
TEST(ImportTest, EveryKindWithAnIdentityKeepsTheFunction) {
  for (const char* folder : {"gpt2", "llama_tied_gqa", "t5_relu_tied", "bert_pretraining", "albert_groups1"}) {
    for (const char* kind : {"talking", "logits", "weights", "dynamic", "dcmha", "mta", "diff-v2"}) {
      SCOPED_TRACE(StrCat(folder, " ", kind));
      const TempDir dir;
      const ImportResult result = ImportModel(ParityFolder(folder), dir / "model",
                                              {.attention = {ParseName<AttentionKind>("attention", kind)}});
      ASSERT_TRUE(result.difference.has_value());
      EXPECT_EQ(result.difference->composed, 0);
      EXPECT_LT(result.difference->fused, 2e-5);
      EXPECT_EQ(ToJson(ReadRunConfig(RunFolder(dir / "model"))).At("attention"), Json(kind));
      const Trained opened = Open(dir / "model", {.tokenizer = TokenizerUse::kNone});
      EXPECT_EQ(opened.model->NumParameters(), result.parameters);
    }
  }
  const TempDir dir;
  EXPECT_FALSE(ImportModel(ParityFolder("gpt2"), dir / "model", {}).difference.has_value());
}

// Layers of several kinds, in turn in each stack; at random the function is another.
TEST(ImportTest, LayersContinueAsKindsInTurn) {
  const std::vector<AttentionKind> kinds = {AttentionKind::kMultihead, AttentionKind::kTalking};
  const std::pair<const char*, const char*> folders[] = {
      {"gpt2", "mtm"}, {"llama_tied_gqa", "mt"}, {"t5_relu_tied", "mtmtmt"}, {"bert_pretraining", "mt"}};
  for (const auto& [folder, expected] : folders) {
    SCOPED_TRACE(folder);
    const TempDir dir;
    const ImportResult result = ImportModel(ParityFolder(folder), dir / "model", {.attention = kinds});
    EXPECT_EQ(result.difference.value().composed, 0);
    const Trained opened = Open(dir / "model", {.tokenizer = TokenizerUse::kNone});
    EXPECT_EQ(opened.config.model.layer_kinds, kinds);
    std::string layers;
    for (const AttentionPlace& place : opened.model->AttentionPlaces()) layers += place.config.mixing.P_l ? 't' : 'm';
    EXPECT_EQ(layers, expected);
    const std::string others = StrCat(" (another in ", layers.size() / 2, " of ", layers.size(), " places)");
    EXPECT_TRUE(AttentionText(*opened.model).ends_with(others)) << AttentionText(*opened.model);
    const ImportResult at_random =
        ImportModel(ParityFolder(folder), dir / "random", {.attention = kinds, .mixing_init = MixingInit::kRandom});
    EXPECT_GT(at_random.difference.value().composed, 1e-3);
    EXPECT_EQ(at_random.parameters, result.parameters);
  }
  const TempDir dir;
  testing::ExpectError(
      [&] {
        ImportModel(ParityFolder("gpt2"), dir / "model",
                    {.attention = {AttentionKind::kDiffV2, AttentionKind::kMultihead}});
      },
      ErrorKind::kUsage, {"diff-v2 has twice the softmax heads"});
}

// A run that begins there has each layer as it is, also where options cannot say all of them, and where only a folder
// with extensions says them.
TEST(ImportTest, ARunBeginsWithLayersOfAnyKinds) {
  using enum AttentionKind;
  for (const char* folder : {"llama_tied_gqa", "t5_relu_tied"}) {
    for (const std::vector<AttentionKind>& kinds :
         {std::vector{kTalking, kMultihead}, std::vector{kMta, kTalking}, std::vector{kMultihead, kMta}}) {
      SCOPED_TRACE(StrCat(folder, " ", Name(kinds[0])));
      const TempDir dir;
      ImportModel(ParityFolder(folder), dir / "model", {.attention = kinds});
      const auto open = [&](const char* name) { return Open(dir / name, {.tokenizer = TokenizerUse::kNone}); };
      ExportModel(open("model"), dir / "extended", {.extensions = Extensions::kWrite});
      ImportModel(dir / "extended", dir / "again", {});
      for (const char* name : {"model", "again"}) {
        Trained origin = open(name);
        origin.config.objective.input_length = 16;
        const ModelConfig run = ConfigureModel(origin.config, origin.model->config(), origin.config);
        EXPECT_EQ(run.ToJson().Dump(), origin.model->config().ToJson().Dump()) << name;
        EXPECT_EQ(LoadModelOf(origin, run, 1).model->NumParameters(), origin.model->NumParameters()) << name;
        EXPECT_EQ(origin.config.model.layer_kinds, kinds) << name;
      }
    }
  }
}

TEST(ImportTest, AKindThatNoLayerWouldHaveIsRefused) {
  using enum AttentionKind;
  const TempDir dir;
  ImportModel(ParityFolder("gpt2"), dir / "model", {.attention = {kTalking, kMultihead, kMultihead, kMultihead}});
  testing::ExpectError(
      [&] {
        ImportModel(ParityFolder("gpt2"), dir / "none", {.attention = {kMultihead, kMultihead, kMultihead, kTalking}});
      },
      ErrorKind::kUsage, {"attention: kind 4, talking, has no layer: there are 3"});
}

// Extensions hold what a kind added; a folder with them is no multi-head model to continue, and may lack none of them.
TEST(ImportTest, WhatAKindAddedComesBackAsItWas) {
  for (const char* folder : {"llama_tied_gqa", "t5_relu_tied"}) {
    for (const AttentionKind kind : {AttentionKind::kDcmha, AttentionKind::kMta, AttentionKind::kDiffV2}) {
      const TempDir dir;
      ImportModel(ParityFolder(folder), dir / "model", {.attention = {kind}});
      const auto open = [&](const char* name) { return Open(dir / name, {.tokenizer = TokenizerUse::kNone}); };
      ExportModel(open("model"), dir / "out", {.extensions = Extensions::kWrite});
      const Trained before = open("model"), after = open("out");
      EXPECT_EQ(after.model->config().ToJson(), before.model->config().ToJson()) << Name(kind);
      const std::vector<NamedParameter> expected = before.model->Parameters(), got = after.model->Parameters();
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].value.value().ToVector<float>(), expected[i].value.value().ToVector<float>()) << got[i].name;
      }
      testing::ExpectError([&] { ImportModel(dir / "out", dir / "again", {.attention = {kind}}); }, ErrorKind::kUsage,
                           {"continues multi-head attention"});
    }
  }
}

// GPT-2 keeps q, k and v as equal parts of one tensor.
TEST(ExportTest, PartsOfDifferentSizesHaveNoPublishedForm) {
  const TempDir dir;
  ImportModel(ParityFolder("gpt2"), dir / "model", {.attention = {AttentionKind::kDiffV2}});
  const Trained model = Open(dir / "model", {.tokenizer = TokenizerUse::kNone});
  testing::ExpectError([&] { ExportModel(model, dir / "out", {.extensions = Extensions::kWrite}); }, ErrorKind::kUsage,
                       {"transformer.h.0.attn.c_attn", "equal parts"});
}

// A Llama of two megabytes a layer.
void StoreLlama(const std::string& path, int64_t layers, int64_t vocabulary = 640) {
  const int64_t d = 256, d_ff = 512;
  Folder folder{Json::MakeObject({{"model_type", "llama"},
                                  {"hidden_size", d},
                                  {"intermediate_size", d_ff},
                                  {"num_hidden_layers", layers},
                                  {"num_attention_heads", 4},
                                  {"vocab_size", vocabulary},
                                  {"max_position_embeddings", 64}}),
                {},
                {}};
  const auto add = [&](const std::string& name, const Shape& shape) {
    folder.tensors[name] = Tensor::Full(shape, 0.25, DType::kFloat32);
  };
  add("model.embed_tokens.weight", {vocabulary, d});
  add("lm_head.weight", {vocabulary, d});
  add("model.norm.weight", {d});
  for (int64_t i = 0; i < layers; ++i) {
    const std::string layer = StrCat("model.layers.", i, ".");
    for (const char* name : {"q", "k", "v", "o"}) add(StrCat(layer, "self_attn.", name, "_proj.weight"), {d, d});
    for (const char* name : {"gate", "up"}) add(StrCat(layer, "mlp.", name, "_proj.weight"), {d_ff, d});
    add(layer + "mlp.down_proj.weight", {d, d_ff});
    for (const char* name : {"input", "post_attention"}) add(StrCat(layer, name, "_layernorm.weight"), {d});
  }
  Store(folder, path);
}

// Its ids are those of its tokenizer.model, and none is padding.
TEST(ImportTest, ALlamaComesWithASentencePieceModelAlone) {
  const TempDir dir;
  StoreLlama(dir / "llama", 1, 620);
  const std::string source = ParityFolder("../../../models/text/tokenizers/llama_form") + "/tokenizer.model";
  std::filesystem::copy(source, dir / "llama");
  ImportModel(dir / "llama", dir / "model", {});
  const Trained model = Open(dir / "model");
  EXPECT_EQ(model.tokenizer->vocab_size(), 620);
  EXPECT_EQ(model.tokenizer->special_tokens().pad, kNoToken);
  EXPECT_EQ(TemplateOf(*model.tokenizer, 1), (PairTemplate{{-1, 1, 0}, {0, kNoToken, 0}}));
  ExportModel(model, dir / "out", {});
  EXPECT_EQ(ReadFile(dir / "out/tokenizer.model"), ReadFile(source));
}

// Beside the model: the tensor whose layout changes, in both layouts at once. Blocks may be an eighth too large.
TEST(ImportTest, AModelIsReadWithoutASecondCopy) {
  const TempDir dir;
  StoreLlama(dir / "llama", 12);
  const int64_t before = GetMemoryStats().live_bytes, largest = 640 * 256 * 4;
  ResetPeakMemory();
  const HuggingFaceFolder folder(dir / "llama");
  const PublishedModel published = LoadPublishedModel(folder, {});
  const int64_t model = published.model->NumParameters() * 4;
  EXPECT_LE(GetMemoryStats().peak_bytes - before, model / 8 * 9 + 2 * largest);
  ResetPeakMemory();
  EXPECT_TRUE(NotPublishable(*published.model, *published.form).empty());
  EXPECT_EQ(GetMemoryStats().peak_bytes, GetMemoryStats().live_bytes);
}

TEST(ExportTest, AModelIsWrittenWithoutASecondCopy) {
  const TempDir dir;
  StoreLlama(dir / "llama", 12);
  const Trained model = Open(dir / "llama", {.tokenizer = TokenizerUse::kNone});
  const int64_t before = GetMemoryStats().live_bytes, largest = 640 * 256 * 4;
  ResetPeakMemory();
  ExportModel(model, dir / "out", {.dtype = ExportDType::kBFloat16});
  EXPECT_LE(GetMemoryStats().peak_bytes - before, 2 * largest);
}

TEST(HuggingFaceFolderTest, AFileThatChangesMeanwhileIsRefused) {
  const TempDir dir;
  StoreLlama(dir / "llama", 1);
  const std::string weights = dir / "llama/model.safetensors";
  const HuggingFaceFolder folder(dir / "llama");
  EXPECT_EQ(folder.ReadTensor("model.norm.weight").shape(), Shape({256}));
  std::filesystem::resize_file(weights, std::filesystem::file_size(weights) - 1);
  testing::ExpectError([&] { LoadPublishedModel(folder, {}); }, ErrorKind::kData, {weights, "has changed"});
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
