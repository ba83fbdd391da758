// `crosstalk import` of folders that it refuses: each in a sentence that names the file and the key or tensor.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/published_folder.h"

namespace crosstalk {
namespace import_refused_test {

using ImportRefusedTest = PublishedFolderTest;

TEST_F(ImportRefusedTest, WeightsOfOtherFormatsAreRefusedWithHowToConvertThem) {
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
TEST_F(ImportRefusedTest, WhatTheConfigurationSaysMustFitTheTensors) {
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
      {"t5_relu_tied", "feed_forward_proj", "gated-silu", "feed_forward_proj"},
      {"t5_relu_tied", "feed_forward_proj", "gated-gelu", "is_gated_act"},
      {"t5_relu_tied", "dense_act_fn", "silu", "dense_act_fn"},
      {"t5_relu_tied", "layer_norm_epsilon", 0, "layer_norm_epsilon"},
      {"t5_relu_tied", "architectures", Json::MakeArray({"T5EncoderModel"}), "T5EncoderModel"},
      {"t5_relu_tied", "model_type", "mt5", "\"mt5\" is not read here; t5, bert, albert are read"},
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
    std::filesystem::remove_all(In());
    Store(folder, In());
    SCOPED_TRACE(std::string(change.model) + " " + change.key + " = " + change.value.Dump());
    ExpectRefused({change.word});
  }
}

TEST_F(ImportRefusedTest, TensorsThatDoNotFitAreRefusedByName) {
  const auto refused = [&](const char* model, const std::function<void(Folder&)>& change, const char* word) {
    Folder folder = Load(model);
    change(folder);
    std::filesystem::remove_all(In());
    Store(folder, In());
    SCOPED_TRACE(word);
    ExpectRefused({word});
  };
  const auto wrong = [](const char* name, const Shape& shape) {
    return [=](Folder& folder) { folder.tensors[name] = Tensor::Full(shape, 0.5, DType::kFloat32); };
  };
  refused("t5_relu_tied", wrong("lm_head.weight", {255, 48}), "lm_head.weight");
  refused("t5_relu_tied", wrong("decoder.final_layer_norm.weight", {47}), "decoder.final_layer_norm.weight");
  refused("t5_relu_tied", wrong("encoder.block.1.layer.0.SelfAttention.o.weight", {48, 47}), "SelfAttention.o.weight");
  refused("t5_relu_tied", wrong("encoder.block.7.layer.0.layer_norm.weight", {48}), "encoder.block.7");
  refused("t5_relu_tied", wrong("something.else", {3}), "something.else");
  refused(
      "t5_relu_tied", [](Folder& folder) { folder.tensors.erase("shared.weight"); }, "shared.weight");
  refused(
      "t5_relu_tied", [](Folder& folder) { folder.tensors.erase("encoder.final_layer_norm.weight"); },
      "encoder.final_layer_norm.weight");
  refused(
      "bert_pretraining",
      [](Folder& folder) {
        folder.tensors["bert.embeddings.position_ids"] = Tensor::Full({1, 40}, 1, DType::kInt64);
      },
      "bert.embeddings.position_ids");
  refused(
      "bert_pretraining",
      [](Folder& folder) { folder.tensors["bert.pooler.dense.bias"] = Tensor::Full({48}, 1, DType::kFloat64); },
      "bert.pooler.dense.bias");
  refused(
      "bert_pretraining",
      [](Folder& folder) {
        folder.tensors["bert.embeddings.LayerNorm.gamma"] = folder.tensors.at("bert.embeddings.LayerNorm.weight");
      },
      "bert.embeddings.LayerNorm.gamma");
  refused(
      "bert_pretraining",
      [](Folder& folder) { folder.tensors["bert.pooler.dense.bias"] = Tensor::Full({48}, 1, DType::kInt64); },
      "bert.pooler.dense.bias");
  refused(
      "bert_pretraining", [](Folder& folder) { folder.tensors["bert.pooler.dense.bias"].Slice(0, 3, 4).Fill(NAN); },
      "nan");
}

}  // namespace import_refused_test
}  // namespace crosstalk
