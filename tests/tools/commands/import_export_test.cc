// `crosstalk import` and `crosstalk export`: published folders in every form in which they are found, and back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"
#include "tests/support/command_checks.h"
#include "tests/support/parity.h"
#include "tests/support/published_folder.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace import_export_test {

using ImportExportTest = PublishedFolderTest;

TEST_F(ImportExportTest, TensorsComeBackByteForByte) {
  for (const char* model : kParityModels) {
    SCOPED_TRACE(model);
    std::filesystem::remove_all(In());
    std::filesystem::copy(ParityFolder(model), In());
    ExpectRoundTrip();
  }
}

// Every name of a tied tensor, the buffer of positions, and a bias that nothing reads.
TEST_F(ImportExportTest, TiedCopiesAndBuffersComeBack) {
  Folder bert = Load("bert_pretraining");
  bert.tensors["cls.predictions.decoder.weight"] = bert.tensors.at("bert.embeddings.word_embeddings.weight");
  bert.tensors["cls.predictions.decoder.bias"] = bert.tensors.at("cls.predictions.bias");
  bert.tensors["bert.embeddings.position_ids"] = Counting(40);
  Store(bert, In());
  ExpectRoundTrip();

  Folder t5 = Load("t5_relu_tied");
  for (const char* name : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"}) {
    t5.tensors[name] = t5.tensors.at("shared.weight");
  }
  t5.tensors["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] =
      Tensor::Full({32, 4}, 0.125, DType::kFloat32);
  std::filesystem::remove_all(In());
  Store(t5, In());
  ExpectRoundTrip();
}

// One of the tied names alone, whichever; TensorFlow's names of norms; names without the model's prefix.
TEST_F(ImportExportTest, OtherNamesComeBack) {
  const struct {
    const char* model;
    const char* usual;
    std::vector<const char*> others;
  } tied[] = {{"t5_relu_tied",
               "shared.weight",
               {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"}},
              {"bert_pretraining", "bert.embeddings.word_embeddings.weight", {"cls.predictions.decoder.weight"}},
              {"bert_pretraining", "cls.predictions.bias", {"cls.predictions.decoder.bias"}},
              {"albert_groups1", "albert.embeddings.word_embeddings.weight", {"predictions.decoder.weight"}}};
  for (const auto& one : tied) {
    for (const char* other : one.others) {
      SCOPED_TRACE(other);
      Folder folder = Load(one.model);
      folder.tensors[other] = folder.tensors.at(one.usual);
      folder.tensors.erase(one.usual);
      std::filesystem::remove_all(In());
      Store(folder, In());
      ExpectRoundTrip();
    }
  }

  Folder bert = Load("bert_pretraining");
  for (const auto& [name, tensor] : Load("bert_pretraining").tensors) {
    for (const auto& [end, other] :
         {std::pair{"LayerNorm.weight", "LayerNorm.gamma"}, std::pair{"LayerNorm.bias", "LayerNorm.beta"}}) {
      if (!name.ends_with(end)) continue;
      bert.tensors[name.substr(0, name.size() - std::strlen(end)) + other] = tensor;
      bert.tensors.erase(name);
    }
  }
  std::filesystem::remove_all(In());
  Store(bert, In());
  ExpectRoundTrip();

  Folder bare = Load("bert_pretraining");
  bare.tensors.clear();
  for (const auto& [name, tensor] : Load("bert_pretraining").tensors) {
    if (name.rfind("bert.", 0) == 0) bare.tensors[name.substr(5)] = tensor;
  }
  bare.config.Set("architectures", Json::MakeArray({"BertModel"}));
  std::filesystem::remove_all(In());
  Store(bare, In());
  ExpectRoundTrip();
}

TEST_F(ImportExportTest, SixteenBitsComeBack) {
  for (const HalfFormat format : {HalfFormat::kFloat16, HalfFormat::kBFloat16}) {
    Folder albert = Load("albert_groups1");
    for (const auto& [name, tensor] : albert.tensors) {
      if (name != "predictions.bias") albert.halves.emplace(name, format);
    }
    std::filesystem::remove_all(In());
    Store(albert, In());
    ExpectRoundTrip();
    Succeeded(Export({"--dtype", "float32"}));
    const TensorFile here = ReadSafetensors(In() + "/model.safetensors");
    for (const NamedTensor& tensor : ReadSafetensors(Out() + "/model.safetensors").tensors) {
      EXPECT_EQ(tensor.tensor.ToVector<float>(), here.At(tensor.name).ToVector<float>()) << tensor.name;
    }
    for (const TensorFileEntry& entry : ReadSafetensorsHeader(Out() + "/model.safetensors").entries) {
      EXPECT_EQ(entry.dtype, "F32");
    }
  }
}

TEST_F(ImportExportTest, ShardsAreReadWithTheirIndex) {
  const Folder bert = Load("bert_pretraining");
  std::filesystem::create_directories(In());
  WriteFileAtomically(In() + "/config.json", bert.config.DumpPretty());
  Json map = Json::MakeObject();
  std::vector<NamedTensor> parts[2];
  for (const auto& [name, tensor] : bert.tensors) {
    const size_t part = map.is_object() && name.find("layer.1") != std::string::npos ? 1 : 0;
    parts[part].push_back({name, tensor});
    map.Set(name, part == 0 ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors");
  }
  const auto store = [&](const Json& weight_map) {
    WriteFileAtomically(In() + "/model.safetensors.index.json",
                        Json::MakeObject({{"metadata", Json::MakeObject()}, {"weight_map", weight_map}}).Dump());
  };
  store(map);
  WriteSafetensors(In() + "/model-00001-of-00002.safetensors", parts[0]);
  WriteSafetensors(In() + "/model-00002-of-00002.safetensors", parts[1]);
  Succeeded(Import());
  Succeeded(Export());
  const TensorFile out = ReadSafetensors(Out() + "/model.safetensors");
  ASSERT_EQ(out.tensors.size(), bert.tensors.size());
  for (const auto& [name, tensor] : bert.tensors) {
    EXPECT_EQ(out.At(name).ToVector<float>(), tensor.ToVector<float>()) << name;
  }

  const std::string name = bert.tensors.begin()->first;
  for (const char* place : {"../model.safetensors", "/etc/passwd", "sub/model.safetensors", ".safetensors", "x.bin"}) {
    Json escaping = map;
    escaping.Set(name, place);
    store(escaping);
    ExpectRefused({"model.safetensors.index.json", name});
  }
  Json elsewhere = map;
  elsewhere.Set(name, "model-00002-of-00002.safetensors");
  store(elsewhere);
  ExpectRefused({name, "model-00002-of-00002.safetensors"});
  Json more = map;
  more.Set("another", "model-00002-of-00002.safetensors");
  store(more);
  ExpectRefused({"another"});
  Json missing = map;
  missing.Set("another", "model-00003-of-00003.safetensors");
  store(missing);
  ExpectRefused({"model-00003-of-00003.safetensors"});
  store(map);
  std::filesystem::resize_file(In() + "/model-00002-of-00002.safetensors", 1000);
  ExpectRefused({"model-00002-of-00002.safetensors"});
}

TEST_F(ImportExportTest, WhatTheFormCannotSayIsRefusedOrWrittenBeside) {
  for (const char* model : kParityModels) {
    SCOPED_TRACE(model);
    std::filesystem::remove_all(In());
    std::filesystem::copy(ParityFolder(model), In());
    Succeeded(Import({"--attention", "talking"}));
    ExpectExit(Export(), 2, {"P_l", "--with-extensions"});
    EXPECT_FALSE(std::filesystem::exists(Out()));
    Succeeded(Export({"--with-extensions"}));
    EXPECT_NE(ReadSafetensors(Out() + "/model.safetensors").Find("crosstalk.encoder.block_0.self_attention.P_l"),
              nullptr);
    // And in again: the same tensors.
    std::filesystem::remove_all(In());
    std::filesystem::rename(Out(), In());
    Succeeded(Import());
    Succeeded(Export({"--with-extensions"}));
    EXPECT_EQ(ReadBytes(In() + "/config.json"), ReadBytes(Out() + "/config.json"));
    ExpectSameTensors(In(), Out());
  }
}

TEST_F(ImportExportTest, RunsAreExportedAndReadBack) {
  const std::string run = dir_ / "run";
  Succeeded(RunCommand(TinyTrain({"--attention", "multihead", "--feed-forward", "gated-gelu", "--classifier", "untied",
                                  "--key-size", "5", "--value-size", "5", "--out", run})));
  Succeeded(RunCommand({"export", run, "--out", In()}));
  const Json config = ReadJsonFile(In() + "/config.json");
  EXPECT_EQ(config.At("d_kv").AsInt(), 5);
  EXPECT_EQ(config.At("feed_forward_proj").AsString(), "gated-gelu");
  ExpectRoundTrip();
  const Tensor ids = Tensor::Full({2, 9}, 70, DType::kInt32);
  WriteSafetensors(dir_ / "in.safetensors", std::vector<NamedTensor>{{"input_ids", ids}, {"labels", ids}});
  for (const std::string& model : {run, In()}) {
    Succeeded(RunCommand({"forward", model, "-i", dir_ / "in.safetensors", "-o", model + ".out", "--gradients"}));
  }
  EXPECT_TRUE(ReadBytes(run + ".out") == ReadBytes(In() + ".out"));
  const std::string tied = dir_ / "tied";
  Succeeded(RunCommand(TinyTrain(
      {"--attention", "multihead", "--keys-values", "tied", "--attention-scale", "explicit", "--out", tied})));
  ExpectExit(RunCommand({"export", tied, "--out", dir_ / "refused"}), 2, {"key_value", "scale"});
}

TEST_F(ImportExportTest, RunsOfBertAndAlbertAreExportedAndReadBack) {
  const std::vector<std::string> published = {"--attention", "multihead", "--positions", "learned"};
  const std::vector<std::string> albert = {"--layers",       "3", "--layer-groups",   "2",
                                           "--inner-layers", "2", "--embedding-size", "8"};
  const Tensor ids = Tensor::Full({2, 9}, 70, DType::kInt32), kinds = Tensor::Full({2}, 1, DType::kInt32);
  for (const char* model : {"bert", "albert"}) {
    SCOPED_TRACE(model);
    const bool is_albert = std::string(model) == "albert";
    const std::string run = dir_ / (std::string(model) + "-run");
    Succeeded(RunCommand(TinyTrain(Joined(Joined({"--model", model, "--out", run, "--steps", "2"}, published),
                                          is_albert ? albert : std::vector<std::string>()))));
    std::filesystem::remove_all(In());
    Succeeded(RunCommand({"export", run, "--out", In()}));
    if (is_albert) {
      const Json config = ReadJsonFile(In() + "/config.json");
      EXPECT_EQ(config.At("num_hidden_groups").AsInt(), 2);
      EXPECT_EQ(config.At("inner_group_num").AsInt(), 2);
      EXPECT_NE(ReadSafetensors(In() + "/model.safetensors")
                    .Find("albert.encoder.albert_layer_groups.1.albert_layers.1.ffn.weight"),
                nullptr);
    }
    ExpectRoundTrip();
    const char* const label = is_albert ? "sentence_order_label" : "next_sentence_label";
    WriteSafetensors(dir_ / "in.safetensors",
                     std::vector<NamedTensor>{{"input_ids", ids}, {"labels", ids}, {label, kinds}});
    for (const std::string& one : {run, In()}) {
      Succeeded(RunCommand({"forward", one, "-i", dir_ / "in.safetensors", "-o", one + ".out", "--gradients"}));
    }
    EXPECT_TRUE(ReadBytes(run + ".out") == ReadBytes(In() + ".out"));
  }
}

TEST_F(ImportExportTest, PositionsThatAreNotPublishedAreRefusedByName) {
  for (const char* positions : {"relative-bias", "none"}) {
    const std::string run = dir_ / positions;
    Succeeded(RunCommand(TinyTrain(
        {"--model", "bert", "--attention", "multihead", "--positions", positions, "--steps", "2", "--out", run})));
    ExpectExit(RunCommand({"export", run, "--out", In()}), 2,
               {"position_embedding_type: \"" + std::string(positions) + "\""});
  }
}

// Extensions of every kind are read back, and what is read back says what it is: a training can begin with it.
TEST_F(ImportExportTest, AnyAttentionComesBackAndIsTrainedOn) {
  const std::vector<std::string> kinds[] = {
      {"--model", "albert", "--attention", "bilinear"},
      {"--model", "bert", "--attention", "logits", "--dynamic", "Xl,Mw", "--key-heads", "4", "--value-size", "5"},
      {"--model", "t5", "--attention", "bilinear", "--decoder-self", "dynamic"},
  };
  for (const std::vector<std::string>& kind : kinds) {
    SCOPED_TRACE(::testing::PrintToString(kind));
    const std::string run = dir_ / "run", tuned = dir_ / "tuned";
    for (const std::string& folder : {run, tuned, In()}) std::filesystem::remove_all(folder);
    Succeeded(RunCommand(TinyTrain(
        Joined({"--tokenizer", "sentencepiece", "--vocabulary", "330", "--steps", "2", "--out", run}, kind))));
    Succeeded(RunCommand({"export", run, "--out", In(), "--with-extensions"}));
    Succeeded(Import());
    Succeeded(Export({"--with-extensions"}));
    ExpectSameTensors(In(), Out());
    Succeeded(RunCommand({"train", "--init-from", Model(), "--out", tuned, "--steps", "2", "--batch", "2", "--warmup",
                          "1", "--eval-batches", "1", "--threads", "1"}));
  }
}

// The heads of tasks: found by their tensors, held against the architecture and the labels.
TEST_F(ImportExportTest, HeadsOfTasksComeBack) {
  struct Head {
    const char* model;
    const char* architecture;
    const char* tensor;
    int64_t rows;
    const char* output;
  };
  const Head heads[] = {
      {"bert_pretraining", "BertForSequenceClassification", "classifier", 3, "logits"},
      {"bert_pretraining", "BertForSequenceClassification", "classifier", 1, "logits"},
      {"bert_pretraining", "BertForMultipleChoice", "classifier", 1, "logits"},
      {"bert_pretraining", "BertForQuestionAnswering", "qa_outputs", 2, "start_logits"},
      {"albert_groups1", "AlbertForSequenceClassification", "classifier", 2, "logits"},
      {"albert_groups1", "AlbertForQuestionAnswering", "qa_outputs", 2, "end_logits"},
  };
  for (const Head& head : heads) {
    SCOPED_TRACE(head.architecture);
    Folder folder = Load(head.model);
    std::erase_if(folder.tensors, [](const auto& one) {
      return one.first.starts_with("cls.") || one.first.starts_with("predictions.") || one.first.starts_with("sop_");
    });
    const std::string name = head.tensor;
    folder.tensors[name + ".weight"] = Tensor::Full({head.rows, 48}, 0.25, DType::kFloat32);
    folder.tensors[name + ".bias"] = Tensor::Full({head.rows}, 0.5, DType::kFloat32);
    folder.config.Set("architectures", Json::MakeArray({head.architecture}));
    if (head.rows == 3) {
      folder.config.Set("id2label", Json::MakeObject({{"0", "a"}, {"1", "b"}, {"2", "c"}}));
    }
    std::filesystem::remove_all(In());
    Store(folder, In());
    ExpectRoundTrip();
    WriteSafetensors(dir_ / "in.safetensors",
                     std::vector<NamedTensor>{{"input_ids", Tensor::Full({2, 9}, 70, DType::kInt32)}});
    Succeeded(RunCommand({"forward", Model(), "-i", dir_ / "in.safetensors", "-o", dir_ / "out"}));
    EXPECT_NE(ReadSafetensors(dir_ / "out").Find(head.output), nullptr);
    if (head.rows != 3) continue;
    folder.config.Set("id2label", Json::MakeObject({{"0", "a"}, {"1", "b"}}));
    std::filesystem::remove_all(In());
    Store(folder, In());
    ExpectRefused({"id2label"});
  }
}

// A published T5 with ids above its tokenizer's and an epsilon that no option sets: measured, written with, finetuned,
// and resumed as it is.
TEST_F(ImportExportTest, ImportedModelsAreEvaluatedAndTrained) {
  const std::string run = dir_ / "run", tuned = dir_ / "tuned";
  Succeeded(RunCommand(
      TinyTrain({"--tokenizer", "sentencepiece", "--vocabulary", "330", "--attention", "multihead", "--out", run})));
  Succeeded(RunCommand({"export", run, "--out", In()}));
  EXPECT_EQ(ReadBytes(In() + "/spiece.model"), ReadBytes(run + "/tokenizer.model"));
  Json config = ReadJsonFile(In() + "/config.json");
  const int64_t ids = config.At("vocab_size").AsInt(), more = ids + 12;
  config.Set("vocab_size", more).Set("layer_norm_epsilon", 1e-5);
  WriteFileAtomically(In() + "/config.json", config.DumpPretty());
  TensorFile weights = ReadSafetensors(In() + "/model.safetensors");
  for (NamedTensor& tensor : weights.tensors) {
    if (tensor.name != "shared.weight") continue;
    Tensor wider = Tensor::Full({more, tensor.tensor.size(1)}, 0.25, DType::kFloat32);
    wider.Slice(0, 0, ids).CopyFrom(tensor.tensor);
    tensor.tensor = wider;
  }
  WriteSafetensors(In() + "/model.safetensors", weights.tensors, {{"format", "pt"}});
  ExpectRoundTrip();
  EXPECT_EQ(ReadBytes(In() + "/spiece.model"), ReadBytes(Out() + "/spiece.model"));

  Succeeded(RunCommand({"eval", "--run", Model(), "--eval-batches", "1", "--batch", "2"}));
  Succeeded(RunCommand({"generate", "--run", Model(), "--text", "Once ___ a time"}));

  std::vector<std::string> train = {"train", "--init-from",    Model(), "--out",     tuned,  "--steps",
                                    "4",     "--batch",        "2",     "--dropout", "0.25", "--threads",
                                    "1",     "--eval-batches", "1"};
  Succeeded(RunCommand(train));
  const Json model = ReadJsonFile(tuned + "/run.json").At("model");
  EXPECT_EQ(model.At("vocabulary").AsInt(), more);
  EXPECT_EQ(model.At("norm_epsilon").AsDouble(), 1e-5);
  EXPECT_EQ(model.At("dropout_rate").AsDouble(), 0.25);
  EXPECT_EQ(model.At("encoder_self").At("dropout_rate").AsDouble(), 0.25);
  Succeeded(RunCommand({"train", "--resume", tuned, "--steps", "6", "--threads", "1"}));
  EXPECT_EQ(ReadJsonFile(tuned + "/run.json").At("model").At("vocabulary").AsInt(), more);
  Succeeded(RunCommand({"export", tuned, "--out", dir_ / "tuned-out"}));
}

// A BERT with a vocab.txt: its files come back as they are, and from a run that begins with it the vocabulary does.
TEST_F(ImportExportTest, BertComesWithItsVocabulary) {
  std::filesystem::copy(ParityFolder("bert_pretraining"), In());
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (char c = 'a'; c <= 'z'; ++c) vocabulary += std::string(1, c) + "\n##" + c + "\n";
  while (std::count(vocabulary.begin(), vocabulary.end(), '\n') < 300) {
    vocabulary += "[unused" + std::to_string(vocabulary.size()) + "]\n";
  }
  WriteFileAtomically(In() + "/vocab.txt", vocabulary);
  WriteFileAtomically(In() + "/tokenizer_config.json", "{\"do_lower_case\": true}");
  ExpectRoundTrip();
  EXPECT_EQ(ReadBytes(Out() + "/vocab.txt"), vocabulary);
  EXPECT_EQ(ReadBytes(Out() + "/tokenizer_config.json"), "{\"do_lower_case\": true}");
  Succeeded(RunCommand({"export", In(), "--out", dir_ / "direct"}));
  ExpectSameTensors(In(), dir_ / "direct");
  EXPECT_EQ(ReadBytes(dir_ / "direct/vocab.txt"), vocabulary);
  Succeeded(RunCommand({"eval", "--run", Model(), "--eval-batches", "1", "--batch", "2"}));

  const std::string tuned = dir_ / "tuned";
  Succeeded(RunCommand({"train", "--init-from", Model(), "--out", tuned, "--steps", "3", "--batch", "2", "--threads",
                        "1", "--eval-batches", "1"}));
  Succeeded(RunCommand({"export", tuned, "--out", dir_ / "tuned-out"}));
  EXPECT_EQ(ReadBytes(dir_ / "tuned-out/vocab.txt"), vocabulary);

  WriteFileAtomically(In() + "/vocab.txt", vocabulary + "more\n");
  ExpectRefused({"tokenizer", "301", "300"});
  WriteFileAtomically(In() + "/vocab.txt", "a\n\nb\n");
  ExpectRefused({"--tokenizer", "vocab.txt: line 2 is empty", "none"});
  Succeeded(RunCommand({"import", In(), "--out", dir_ / "without", "--tokenizer", "none"}));
}

// A run of a tokenizer whose rules no vocab.txt says: it goes on from what it keeps, and what is exported reads text as
// it does.
TEST_F(ImportExportTest, ATokenizersRulesStayInARunAndItsExport) {
  std::string vocabulary = ", \"##a\": 330";
  for (int i = 0; i < 299; ++i) vocabulary += ", \"[unused" + std::to_string(i) + "]\": " + std::to_string(31 + i);
  for (char c = 'a'; c <= 'z'; ++c) vocabulary += ", \"" + std::string(1, c) + "\": " + std::to_string(c - 'a' + 5);
  WriteFileAtomically(
      dir_ / "tokenizer.json",
      R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [{"id": 331, "special": false,
        "content": "New Thing", "single_word": false, "lstrip": false, "rstrip": false, "normalized": true}],
      "normalizer": null, "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": null, "decoder": null,
      "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 7, "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4)" +
          vocabulary + "}}}");
  const std::string run = dir_ / "run";
  Succeeded(RunCommand(TinyTrain({"--model", "bert", "--attention", "multihead", "--positions", "learned", "--steps",
                                  "2", "--tokenizer", dir_ / "tokenizer.json", "--out", run})));
  Succeeded(RunCommand({"export", run, "--out", In()}));
  EXPECT_FALSE(std::filesystem::exists(In() + "/vocab.txt"));
  Succeeded(Import());
  WriteFileAtomically(dir_ / "lines", "New Thing a A\naaaaaaa\naaaaaaaa\n\u00E9\n");
  const auto read = [&](const std::string& folder) {
    return RunCommand({"tokenize", dir_ / "lines", "--tokenizer", folder}).output;
  };
  EXPECT_EQ(read(run), "331 5 1\n5 330 330 330 330 330 330\n1\n1\n");
  EXPECT_EQ(read(In()), read(run));
}

TEST_F(ImportExportTest, WithoutATokenizerItIsSaid) {
  std::filesystem::copy(ParityFolder("t5_relu_tied"), In());
  const CommandResult result = Import();
  EXPECT_NE(result.errors.find("tokenizer"), std::string::npos) << result.errors;
  ExpectExit(RunCommand({"eval", "--run", Model()}), 3, {"has no tokenizer", "imported again"});
}

TEST_F(ImportExportTest, AnImportedModelIsNoTrainingToGoOnWith) {
  std::filesystem::copy(ParityFolder("bert_pretraining"), In());
  Succeeded(Import());
  ExpectExit(RunCommand({"train", "--resume", Model()}), 2, {"is an imported model", "init_from"});
}

TEST_F(ImportExportTest, FoldersThatHoldSomethingAreLeftAlone) {
  std::filesystem::copy(ParityFolder("t5_relu_tied"), In());
  std::filesystem::create_directories(Model());
  std::filesystem::create_directories(dir_ / ".model.tmp-12-0/checkpoints");  // of one that was killed: it goes
  Succeeded(RunCommand({"import", In(), "--out", Model()}));                  // an empty one is no obstacle
  EXPECT_EQ(RunCommand({"import", In(), "--out", Model()}).exit_code, 2);
  EXPECT_EQ(RunCommand({"export", Model(), "--out", In()}).exit_code, 2);
  EXPECT_EQ(RunCommand({"export", Model(), "--out", In() + "/config.json"}).exit_code, 2);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_.path()), std::filesystem::directory_iterator()), 2);
}

TEST_F(ImportExportTest, OfSeveralAtOnceOneMakesTheFolder) {
  std::filesystem::copy(ParityFolder("t5_relu_tied"), In());
  std::vector<std::unique_ptr<RunningCommand>> imports;
  for (int i = 0; i < 4; ++i) {
    imports.push_back(std::make_unique<RunningCommand>(std::vector<std::string>{"import", In(), "--out", Model()}));
  }
  std::vector<int> codes;
  for (const auto& one : imports) codes.push_back(one->Wait().exit_code);
  std::sort(codes.begin(), codes.end());
  EXPECT_EQ(codes, (std::vector<int>{0, 2, 2, 2}));
  Succeeded(Export());
}

}  // namespace import_export_test
}  // namespace crosstalk
