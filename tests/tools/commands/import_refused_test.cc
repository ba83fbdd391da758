// `crosstalk import` of folders that it refuses: each in a sentence that names the file and the key or tensor.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
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
    std::filesystem::remove_all(In());
    Store(folder, In());
    ExpectRefused({change.word});
  }
}

}  // namespace import_refused_test
}  // namespace crosstalk
