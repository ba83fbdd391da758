// `crosstalk import` and `crosstalk export`: published folders in every form in which their tensors are found, and
// back. tests/sessions/import_export.session has the rest of what these commands do.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
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

class ImportExportTest : public PublishedFolderTest {
 protected:
  // The folder and nothing that was there before.
  void Publish(const Folder& folder) {
    std::filesystem::remove_all(In());
    Store(folder, In());
  }
};

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
  Publish(t5);
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
      Publish(folder);
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
  Publish(bert);
  ExpectRoundTrip();

  Folder bare = Load("bert_pretraining");
  bare.tensors.clear();
  for (const auto& [name, tensor] : Load("bert_pretraining").tensors) {
    if (name.rfind("bert.", 0) == 0) bare.tensors[name.substr(5)] = tensor;
  }
  bare.config.Set("architectures", Json::MakeArray({"BertModel"}));
  Publish(bare);
  ExpectRoundTrip();
}

TEST_F(ImportExportTest, SixteenBitsComeBack) {
  for (const HalfFormat format : {HalfFormat::kFloat16, HalfFormat::kBFloat16}) {
    Folder albert = Load("albert_groups1");
    for (const auto& [name, tensor] : albert.tensors) {
      if (name != "predictions.bias") albert.halves.emplace(name, format);
    }
    Publish(albert);
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
  const struct {
    std::string name, place, word;
  } forgeries[] = {{name, "../model.safetensors", "model.safetensors.index.json"},
                   {name, "/etc/passwd", "model.safetensors.index.json"},
                   {name, "sub/model.safetensors", "model.safetensors.index.json"},
                   {name, ".safetensors", "model.safetensors.index.json"},
                   {name, "x.bin", "model.safetensors.index.json"},
                   {name, "model-00002-of-00002.safetensors", "model-00002-of-00002.safetensors"},
                   {"another", "model-00002-of-00002.safetensors", "another"},
                   {"another", "model-00003-of-00003.safetensors", "model-00003-of-00003.safetensors"}};
  for (const auto& forged : forgeries) {
    store(Json(map).Set(forged.name, forged.place));
    ExpectRefused({forged.word, forged.place.ends_with("3.safetensors") ? forged.word : forged.name});
  }
  store(map);
  std::filesystem::resize_file(In() + "/model-00002-of-00002.safetensors", 1000);
  ExpectRefused({"model-00002-of-00002.safetensors"});
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
    Publish(folder);
    ExpectRoundTrip();
    WriteSafetensors(dir_ / "in.safetensors",
                     std::vector<NamedTensor>{{"input_ids", Tensor::Full({2, 9}, 70, DType::kInt32)}});
    Succeeded(RunCommand({"forward", Model(), "-i", dir_ / "in.safetensors", "-o", dir_ / "out"}));
    EXPECT_NE(ReadSafetensors(dir_ / "out").Find(head.output), nullptr);
    if (head.rows != 3) continue;
    folder.config.Set("id2label", Json::MakeObject({{"0", "a"}, {"1", "b"}}));
    Publish(folder);
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

// A BERT that was published without the head for two segments.
TEST_F(ImportExportTest, AMaskedLmIsMeasuredWithoutAnotherHead) {
  Folder bert = Load("bert_pretraining");
  for (const char* name : {"weight", "bias"}) bert.tensors.erase(std::string("cls.seq_relationship.") + name);
  bert.config.Set("architectures", Json::MakeArray({"BertForMaskedLM"}));
  Store(bert, In());
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n", text;
  for (char c = 'a'; c <= 'z'; ++c) vocabulary += std::string(1, c) + "\n##" + c + "\n";
  PutFile(In() + "/vocab.txt", vocabulary);
  for (int i = 0; i < 200; ++i) text += "some words that are read. and some more. \n\n";
  PutFile(dir_ / "text", text);
  Succeeded(Import());
  for (const std::string& form : {In(), Model()}) {
    const CommandResult result =
        Succeeded(RunCommand({"eval", form, "--data", dir_ / "text", "--eval-batches", "1", "--json"}));
    const Json json = ParseJson(result.output, "output");
    EXPECT_NE(json.Find("masked_accuracy"), nullptr) << result.output;
    EXPECT_EQ(json.Find("sentence_accuracy"), nullptr) << result.output;
  }
  ExpectExit(RunCommand({"eval", In()}), 2, {"--data is missing"});
}

// ---- What is refused, in a sentence that names the file and the key or tensor ------------------------------------
TEST_F(ImportExportTest, WeightsOfOtherFormatsAreRefusedWithHowToConvertThem) {
  const std::pair<const char*, const char*> files[] = {{"pytorch_model.bin", "PyTorch"},
                                                       {"pytorch_model.bin.index.json", "PyTorch"},
                                                       {"tf_model.h5", "from_tf"},
                                                       {"model.ckpt.index", "from_tf"},
                                                       {"flax_model.msgpack", "from_flax"}};
  for (const auto& [name, word] : files) {
    std::filesystem::remove_all(In());
    std::filesystem::create_directories(In());
    std::filesystem::copy_file(ParityFolder("bert_pretraining") + "/config.json", In() + "/config.json");
    WriteFileAtomically(In() + "/" + name, "x");
    ExpectRefused({name, word, "save_pretrained"});
  }
  std::filesystem::remove(In() + "/flax_model.msgpack");
  ExpectRefused({"model.safetensors"});
  std::filesystem::remove(In() + "/config.json");
  ExpectRefused({"config.json"});
}

// What config.json says is held against the tensors, one key at a time, before anything is allocated for it.
TEST_F(ImportExportTest, WhatTheConfigurationSaysMustFitTheTensors) {
  struct Change {
    const char* model;
    const char* key;
    Json value;
    const char* word;
  };
  const Change changes[] = {
      {"t5_relu_tied", "vocab_size", 257, "shared.weight"},
      {"t5_relu_tied", "vocab_size", int64_t{1} << 40, "vocab_size"},
      {"t5_relu_tied", "d_model", 1 << 20, "d_model"},
      {"t5_relu_tied", "d_model", "48", "d_model"},
      {"t5_relu_tied", "d_kv", 13, "d_kv"},
      {"t5_relu_tied", "num_heads", 3, "num_heads"},
      {"t5_relu_tied", "num_heads", 8, "num_heads"},
      {"t5_relu_tied", "num_layers", 3, "encoder.block.2"},
      {"t5_relu_tied", "num_layers", 1, "encoder.block.1"},
      {"t5_relu_tied", "num_layers", -1, "num_layers"},
      {"t5_relu_tied", "num_decoder_layers", 1001, "num_decoder_layers"},
      {"t5_relu_tied", "d_ff", 97, "d_ff"},
      {"t5_relu_tied", "relative_attention_num_buckets", 16, "relative_attention_num_buckets"},
      {"t5_relu_tied", "pad_token_id", 256, "pad_token_id"},
      {"t5_relu_tied", "eos_token_id", -3, "eos_token_id"},
      {"t5_relu_tied", "feed_forward_proj", "gated-tanh", "feed_forward_proj"},
      {"t5_relu_tied", "feed_forward_proj", "gated-gelu", "is_gated_act"},
      {"t5_relu_tied", "dense_act_fn", "silu", "dense_act_fn"},
      {"t5_relu_tied", "layer_norm_epsilon", 0, "layer_norm_epsilon"},
      {"t5_relu_tied", "architectures", Json::MakeArray({"T5EncoderModel"}), "T5EncoderModel"},
      {"t5_relu_tied", "model_type", "longt5",
       "\"longt5\" is not read here; t5, mt5, umt5, bert, albert, roberta, xlm-roberta, camembert"},
      {"t5_relu_tied", "quantization_config", Json::MakeObject({{"bits", 4}}), "quantization_config"},
      {"bert_pretraining", "hidden_size", 47, "hidden_size"},
      {"bert_pretraining", "num_attention_heads", 5, "num_attention_heads"},
      {"bert_pretraining", "max_position_embeddings", 41, "max_position_embeddings"},
      {"bert_pretraining", "type_vocab_size", 3, "type_vocab_size"},
      {"bert_pretraining", "intermediate_size", 48, "intermediate_size"},
      {"bert_pretraining", "position_embedding_type", "relative_key", "position_embedding_type"},
      {"bert_pretraining", "hidden_act", "silu", "hidden_act"},
      {"bert_pretraining", "is_decoder", true, "is_decoder"},
      {"bert_pretraining", "layer_norm_eps", "small", "layer_norm_eps"},
      {"bert_pretraining", "architectures", Json::MakeArray({"BertForSequenceClassification"}), "classifier.weight"},
      {"bert_pretraining", "architectures", Json::MakeArray({"BertForTokenClassification"}), "TokenClassification"},
      {"albert_groups1", "embedding_size", 48, "embedding_size"},
      {"albert_groups1", "num_hidden_groups", 2, "albert_layer_groups.1"},
      {"albert_groups1", "num_hidden_groups", 4, "num_hidden_groups"},
      {"albert_groups1", "inner_group_num", 2, "albert_layers.1"},
      {"albert_groups1", "num_hidden_layers", 1000000, "num_hidden_layers"},
  };
  for (const Change& change : changes) {
    Folder folder = Load(change.model);
    folder.config.Set(change.key, change.value);
    Publish(folder);
    SCOPED_TRACE(std::string(change.model) + " " + change.key + " = " + change.value.Dump());
    ExpectRefused({change.word});
  }
}

TEST_F(ImportExportTest, TensorsThatDoNotFitAreRefusedByName) {
  const auto of = [](const Shape& shape, DType dtype = DType::kFloat32) { return Tensor::Full(shape, 0.5, dtype); };
  const std::string bias = "bert.pooler.dense.bias", norm = "bert.embeddings.LayerNorm.";
  Tensor not_finite = of({48});
  not_finite.Slice(0, 3, 4).Fill(NAN);
  struct Change {
    const char* model;
    std::string name;
    Tensor tensor;  // none: it is missing
    std::string word;
  };
  const Change changes[] = {
      {"t5_relu_tied", "lm_head.weight", of({255, 48}), "lm_head.weight"},
      {"t5_relu_tied", "decoder.final_layer_norm.weight", of({47}), "decoder.final_layer_norm.weight"},
      {"t5_relu_tied", "encoder.block.1.layer.0.SelfAttention.o.weight", of({48, 47}), "SelfAttention.o.weight"},
      {"t5_relu_tied", "encoder.block.7.layer.0.layer_norm.weight", of({48}), "encoder.block.7"},
      {"t5_relu_tied", "something.else", of({3}), "something.else"},
      {"t5_relu_tied", "shared.weight", {}, "shared.weight"},
      {"t5_relu_tied", "encoder.final_layer_norm.weight", {}, "encoder.final_layer_norm.weight"},
      {"bert_pretraining", "bert.embeddings.position_ids", Tensor::Full({1, 40}, 1, DType::kInt64), "position_ids"},
      {"bert_pretraining", bias, of({48}, DType::kFloat64), bias},
      {"bert_pretraining", bias, Tensor::Full({48}, 1, DType::kInt64), bias},
      {"bert_pretraining", norm + "gamma", Load("bert_pretraining").tensors.at(norm + "weight"), norm + "gamma"},
      {"bert_pretraining", bias, not_finite, "nan"}};
  for (const Change& change : changes) {
    SCOPED_TRACE(change.name);
    Folder folder = Load(change.model);
    folder.tensors.erase(change.name);
    if (change.tensor.defined()) folder.tensors.emplace(change.name, change.tensor);
    Publish(folder);
    ExpectRefused({change.word});
  }
}

}  // namespace import_export_test
}  // namespace crosstalk
