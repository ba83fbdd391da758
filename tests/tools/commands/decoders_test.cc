// Published decoders: GPT-2's and Llama's forms against what Hugging Face's own code computes of them, in and out
// again, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/command_checks.h"
#include "tests/support/parity.h"
#include "tests/support/published_folder.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace decoders_test {

class DecodersTest : public PublishedFolderTest {
 protected:
  TensorFile ForwardOf(const std::string& model, const std::string& precision) {
    return Forward(model, In() + "/inputs.safetensors", {"--gradients", "--all"}, precision);
  }

  // One row of input_ids, which are the labels, too.
  static void WriteIds(const std::string& path, const std::vector<int64_t>& ids) {
    const Tensor row = Tensor::FromValues<int64_t>({1, std::ssize(ids)}, ids);
    const NamedTensor inputs[] = {{"input_ids", row}, {"labels", row}};
    WriteSafetensors(path, inputs);
  }

  std::string Left() const { return dir_ / "left.safetensors"; }

  // Takes the tensors left.NAME out of the file, as NAME.
  static TensorFile TakeLeft(TensorFile* file) {
    TensorFile left;
    for (const NamedTensor& one : file->tensors) {
      if (one.name.starts_with("left.")) left.tensors.push_back({one.name.substr(5), one.tensor});
    }
    std::erase_if(file->tensors, [](const NamedTensor& one) { return one.name.starts_with("left."); });
    return left;
  }

  // A copy of a folder whose configuration is the file of that name.
  void Copy(const std::string& folder, const std::string& config) {
    std::filesystem::remove_all(In());
    std::filesystem::copy(folder, In());
    WriteFileAtomically(In() + "/config.json", ReadBytes(folder + "/" + config));
    // The same rows padded on the left, with positions of their own, are other inputs.
    TensorFile inputs = ReadSafetensors(In() + "/inputs.safetensors");
    WriteSafetensors(Left(), TakeLeft(&inputs).tensors);
    WriteSafetensors(In() + "/inputs.safetensors", inputs.tensors);
  }

  void ExpectValues(const TensorFile& all) {
    TensorFile expected = all;
    std::erase_if(expected.tensors, [](const NamedTensor& one) { return one.name.starts_with("mean_pooled"); });
    const TensorFile left = TakeLeft(&expected);
    const bool is_whole = expected.Find("logits")->rank() == 3;
    const auto compared = [&](const TensorFile& file, const std::string& inputs = "") {
      return is_whole ? WithoutPadding(file, inputs.empty() ? In() + "/inputs.safetensors" : inputs) : file;
    };
    if (!left.tensors.empty()) {
      TensorFile ours = Forward(Model(), Left(), {}, "double");
      std::erase_if(ours.tensors, [](const NamedTensor& one) { return one.name != "logits"; });
      ExpectParity(compared(left, Left()), compared(ours, Left()), 1e-10, ParityTensors::kAll, 0);
    }
    ExpectParity(compared(expected), compared(ForwardOf(Model(), "double")), 1e-10, ParityTensors::kAll, 9);
    ExpectParity(compared(expected), compared(ForwardOf(Model(), "fp32")), 2e-5, ParityTensors::kAll, 9);
  }

  // Tensors [rows, positions, width] with zeros at what attention_mask hides: the reference need not compute it.
  static TensorFile WithoutPadding(TensorFile file, const std::string& inputs) {
    const Tensor mask = ReadSafetensors(inputs).Find("attention_mask")->Contiguous();
    for (NamedTensor& one : file.tensors) {
      if (one.tensor.rank() != 3 || one.tensor.shape()[0] != mask.shape()[0]) continue;
      const auto hide = [&]<typename T>(T* values) {
        const int64_t width = one.tensor.shape()[2];
        for (int64_t i = 0; i < mask.num_elements(); ++i) {
          if (mask.data<int64_t>()[i] == 0) std::fill_n(values + i * width, width, T{0});
        }
      };
      one.tensor = one.tensor.Clone();
      one.tensor.dtype() == DType::kFloat32 ? hide(one.tensor.data<float>()) : hide(one.tensor.data<double>());
    }
    return file;
  }

  // The ids and scores of each search of `generation`.
  void ExpectGeneration(const Json& generation) {
    for (const auto& [name, search] : generation.AsObject()) {
      SCOPED_TRACE(name);
      const Json& options = search.At("options");
      std::vector<std::string> command = {"generate",
                                          Model(),
                                          "--inputs",
                                          dir_ / "prompt.safetensors",
                                          "--json",
                                          "--temperature",
                                          "0",
                                          "--max-length",
                                          options.At("max_new_tokens").Dump(),
                                          "--beams",
                                          options.At("num_beams").Dump()};
      if (const Json* penalty = options.Find("length_penalty")) {
        command.insert(command.end(), {"--length-penalty", penalty->Dump()});
      }
      if (const Json* early = options.Find("early_stopping"); early != nullptr && *early == Json(true)) {
        command.emplace_back("--early-stopping");
      }
      for (const Json& result : search.At("results").AsArray()) {
        std::vector<int64_t> prompt, written;
        for (const Json& id : result.At("prompt").AsArray()) prompt.push_back(id.AsInt());
        WriteIds(dir_ / "prompt.safetensors", prompt);
        const CommandResult run = RunCommand(command);
        Succeeded(run);
        const Json answer = ParseJson(run.output, "output");
        for (const Json& id : answer.At("ids").AsArray()) prompt.push_back(id.AsInt());
        for (const Json& id : result.At("sequence").AsArray()) written.push_back(id.AsInt());
        EXPECT_EQ(prompt, written);
        if (const Json* score = result.Find("sequences_score")) {
          EXPECT_NEAR(answer.At("score").AsDouble(), score->AsDouble(), 1e-5);
        }
      }
    }
  }
};

TEST_F(DecodersTest, EqualTheReferenceAndReturnByteForByte) {
  for (const char* name : {"gpt2", "llama_tied_gqa"}) {
    for (const char* config : {"config.json", "config_v4_style.json"}) {
      if (!std::filesystem::exists(ParityFolder(name) + "/" + config)) continue;
      SCOPED_TRACE(std::string(name) + " " + config);
      Copy(ParityFolder(name), config);
      ExpectRoundTrip();
      ExpectValues(ReadSafetensors(In() + "/expected.safetensors"));
    }
    ExpectGeneration(ReadJsonFile(In() + "/generation.json"));
  }
}

TEST_F(DecodersTest, EqualTheWholeReference) {
  const char* data = std::getenv("CROSSTALK_DATA");
  if (data == nullptr || !std::filesystem::exists(std::string(data) + "/parity5")) {
    GTEST_SKIP() << "there is no $CROSSTALK_DATA/parity5";
  }
  const std::string folders = std::string(data) + "/parity5/";
  for (const char* name : {"gpt2", "llama_tied_gqa", "llama_untied_bias", "qwen2", "mistral_sliding"}) {
    for (const char* config : {"config.json", "config_v4_style.json"}) {
      if (!std::filesystem::exists(folders + name + "/" + config)) continue;
      SCOPED_TRACE(std::string(name) + " " + config);
      Copy(folders + name, config);
      ExpectRoundTrip();
      ExpectValues(ReadSafetensors(In() + "/expected.safetensors"));
    }
    ExpectGeneration(ReadJsonFile(In() + "/expected.json").At("generation"));
  }
  Copy(folders + "llama_tied_gqa", "config.json");
  const TensorFile expected = ReadSafetensors(In() + "/expected.safetensors");
  std::filesystem::remove(In() + "/model.safetensors");
  for (const auto& shard : std::filesystem::directory_iterator(folders + "llama_tied_gqa/sharded")) {
    std::filesystem::copy(shard.path(), In(), std::filesystem::copy_options::overwrite_existing);
  }
  Succeeded(Import());
  ExpectValues(expected);
}

// Qwen3's norms of queries and keys, and heads whose size is free of d_model: with gains of 1 and queries and keys of
// the same length as before, the function stays.
TEST_F(DecodersTest, Qwen3sQueriesAndKeysAreNormed) {
  Folder folder = Load("llama_tied_gqa");
  folder.config.Set("model_type", "qwen3").Set("architectures", Json::MakeArray({"Qwen3ForCausalLM"}));
  folder.config.Set("rms_norm_eps", 1e-6);
  for (const int layer : {0, 1}) {
    for (const char* norm : {"q_norm", "k_norm"}) {
      folder.tensors[StrCat("model.layers.", layer, ".self_attn.", norm, ".weight")] =
          Tensor::Full({10}, 1, DType::kFloat32);
    }
  }
  const auto logits = [&] {
    Store(folder, In());
    std::filesystem::copy(ParityFolder("llama_tied_gqa") + "/inputs.safetensors", In(),
                          std::filesystem::copy_options::overwrite_existing);
    ExpectRoundTrip();
    return ForwardOf(Model(), "double").At("logits").ToVector<double>();
  };
  const std::vector<double> before = logits();
  // A norm is blind to the length of what it norms, and a key's to that of its query.
  for (const char* matrix : {"q_proj", "k_proj"}) {
    Tensor& weight = folder.tensors.at(StrCat("model.layers.1.self_attn.", matrix, ".weight"));
    weight = weight.Clone();
    for (int64_t i = 0; i < weight.num_elements(); ++i) weight.data<float>()[i] *= 1024;
  }
  const std::vector<double> longer = logits();
  ASSERT_EQ(before.size(), longer.size());
  for (size_t i = 0; i < before.size(); ++i) ASSERT_NEAR(before[i], longer[i], 1e-4);
  folder.tensors.at("model.layers.1.self_attn.q_norm.weight") = Tensor::Full({10}, 2, DType::kFloat32);
  const std::vector<double> sharper = logits();
  EXPECT_GT(std::abs(sharper.back() - longer.back()), 1e-3);
  folder.config.Set("rms_norm_eps", 1e-5);
  Store(folder, In());
  ExpectRefused({"rms_norm_eps: 1e-05 cannot be computed here"});
}

TEST_F(DecodersTest, WhatCannotBeComputedIsRefusedByName) {
  const Json rope = Json::MakeObject({{"rope_type", "yarn"}, {"factor", 4}});
  const Json half = Json::MakeObject({{"rope_type", "linear"}, {"factor", -1}});
  const Json partial = Json::MakeObject({{"rope_theta", 5000}, {"partial_rotary_factor", 0.5}});
  const Json by_layer = Json::MakeObject({{"full_attention", Json::MakeObject({{"rope_theta", 5000}})}});
  const Json without = Json::MakeObject({{"rope_type", "llama3"}, {"factor", 8}});
  const struct {
    const char* model;
    const char* key;
    Json value;
    const char* words;
  } cases[] = {
      {"llama_tied_gqa", "rope_scaling", rope, "rope_scaling: rope_type: \"yarn\" cannot be computed here"},
      {"llama_tied_gqa", "rope_parameters", half, "rope_parameters: factor: -1 is not between 1e-06 and 1e+15"},
      {"llama_tied_gqa", "rope_parameters", partial, "rope_parameters: partial_rotary_factor: 0.5 cannot be computed"},
      {"llama_tied_gqa", "rope_parameters", by_layer, "rope_parameters: full_attention: is not a key"},
      {"llama_tied_gqa", "rope_parameters", without, "rope_parameters: original_max_position_embeddings: is missing"},
      {"llama_tied_gqa", "hidden_act", "relu2", "hidden_act: \"relu2\" cannot be computed here; silu can"},
      {"llama_tied_gqa", "num_key_value_heads", 3, "num_key_value_heads: 3 does not divide the 4 heads"},
      {"llama_tied_gqa", "head_dim", 12, "q_proj.weight"},
      {"llama_tied_gqa", "architectures", Json::MakeArray({"LlamaForSequenceClassification"}), "architectures"},
      {"llama_tied_gqa", "layer_types", Json::MakeArray({"sliding_attention"}), "layer_types"},
      {"gpt2", "scale_attn_by_inverse_layer_idx", true, "scale_attn_by_inverse_layer_idx"},
      {"gpt2", "scale_attn_weights", false, "scale_attn_weights"},
      {"gpt2", "add_cross_attention", true, "add_cross_attention"},
      {"gpt2", "activation_function", "silu", "gelu_new, gelu_pytorch_tanh, gelu, relu can"},
      {"gpt2", "n_positions", 41, "wpe.weight"},
      {"gpt2", "n_inner", 143, "n_inner"},
      {"gpt2", "vocab_size", 152, "vocab_size"},
      {"gpt2", "eos_token_id", 151, "eos_token_id"},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.key);
    Folder folder = Load(test.model);
    folder.config.Set(test.key, test.value);
    Store(folder, In());
    ExpectRefused({test.words});
  }
  Folder folder = Load("gpt2");
  folder.tensors["transformer.h.1.attn.c_attn.weight"] = Tensor::Zeros({36, 107}, DType::kFloat32);
  Store(folder, In());
  ExpectRefused({"transformer.h.1.attn.c_attn.weight", "3 equal parts"});
}

// Llama 3.2's configuration lists its ends, and the tokenizer has the last of them.
TEST_F(DecodersTest, ATokenizerHasOneOfSeveralEnds) {
  Folder folder = Load("gpt2");
  folder.config.Set("vocab_size", 604).Set("bos_token_id", Json());
  folder.tensors["transformer.wte.weight"] = Tensor::Zeros({604, 36}, DType::kFloat32);
  const auto publish = [&](const Json& ends) {
    folder.config.Set("eos_token_id", ends);
    Store(folder, In());
    std::filesystem::copy("tests/models/text/tokenizers/tiny_added_tokens/tokenizer.json", In(),
                          std::filesystem::copy_options::overwrite_existing);
    WriteFileAtomically(In() + "/tokenizer_config.json", R"({"eos_token": "<both>"})");
  };
  publish(Json::MakeArray({5, 598}));
  Succeeded(Import());
  Succeeded(RunCommand({"generate", Model(), "--text", "a", "--max-length", "2"}));
  publish(5);
  ExpectRefused({"eos_token_id is the id 5 in config.json, but 598 in the tokenizer"});
}

// Fine-tuned models often pad with one of their ends.
TEST_F(DecodersTest, PaddingMayBeAnEnd) {
  Folder folder = Load("gpt2");
  const auto answer = [&](const Json& pad) {
    folder.config.Set("pad_token_id", pad);
    Store(folder, In());
    WriteFileAtomically(In() + "/generation_config.json", R"({"eos_token_id": [1, 7]})");
    ExpectRoundTrip();
    WriteIds(dir_ / "prompt.safetensors", {5, 1, 6, 7, 4});
    return Succeeded(RunCommand({"generate", Model(), "--inputs", dir_ / "prompt.safetensors", "--json",
                                 "--temperature", "0", "--max-length", "9"}))
        .output;
  };
  const std::string expected = answer(Json());
  EXPECT_EQ(answer(1), expected);
  EXPECT_EQ(answer(7), expected);
}

// A query sees itself and the window - 1 keys before it, in each of the two layers; null: all.
TEST_F(DecodersTest, AMistralSeesNoFartherThanItsWindow) {
  Folder folder = Load("llama_tied_gqa");
  folder.config.Set("model_type", "mistral").Set("architectures", Json::MakeArray({"MistralForCausalLM"}));
  const auto last_logits = [&](const Json& window, const char* types, int64_t first_id) {
    folder.config.Set("sliding_window", window).Set("layer_types", Json::MakeArray({types, types}));
    Store(folder, In());
    ExpectRoundTrip();
    WriteIds(In() + "/inputs.safetensors", {first_id, 9, 11, 7, 3});
    const std::vector<double> all = ForwardOf(Model(), "double").At("logits").ToVector<double>();
    return std::vector<double>(all.end() - static_cast<ptrdiff_t>(all.size() / 5), all.end());
  };
  EXPECT_EQ(last_logits(2, "sliding_attention", 5), last_logits(2, "sliding_attention", 6));
  EXPECT_NE(last_logits(3, "sliding_attention", 5), last_logits(3, "sliding_attention", 6));
  EXPECT_NE(last_logits(Json(), "full_attention", 5), last_logits(Json(), "full_attention", 6));
  folder.config.Set("sliding_window", 3);
  Store(folder, In());
  ExpectRefused({"layer_types", "full_attention", "sliding_attention"});
}

// A model of one's own in a published form goes out and comes in again.
TEST_F(DecodersTest, OwnModelsArePublishedInTheFormThatSaysThem) {
  const struct {
    const char* type;
    std::vector<std::string> options;
  } cases[] = {
      {"gpt2",
       {"--positions", "learned", "--norm", "layer", "--projection-biases", "all", "--feed-forward-biases",
        "--feed-forward", "gelu-tanh", "--classifier", "untied"}},
      {"llama", {"--positions", "rotary", "--feed-forward", "swiglu", "--kv-heads", "1", "--classifier", "untied"}},
      {"mistral", {"--positions", "rotary", "--feed-forward", "swiglu", "--window", "3", "--classifier", "untied"}},
      {"qwen2",
       {"--positions", "rotary", "--feed-forward", "swiglu", "--projection-biases", "qkv", "--classifier", "untied"}},
      {"qwen3",
       {"--positions", "rotary", "--feed-forward", "swiglu", "--query-key-norm", "--key-size", "6", "--value-size", "6",
        "--classifier", "untied"}}};
  for (const auto& test : cases) {
    SCOPED_TRACE(test.type);
    const std::string run = dir_ / test.type;
    Succeeded(RunCommand(TinyTrain(Joined(
        {"--model", "lm", "--out", run, "--attention", "multihead", "--attention-scale", "explicit"}, test.options))));
    std::filesystem::remove_all(Out());
    Succeeded(RunCommand({"export", run, "--out", Out()}));
    EXPECT_EQ(ReadJsonFile(Out() + "/config.json").At("model_type").AsString(), test.type);
    std::filesystem::create_directories(In());
    WriteIds(In() + "/inputs.safetensors", {4, 7, 9, 3, 11});
    EXPECT_EQ(ForwardOf(run, "double").At("logits").ToVector<double>(),
              ForwardOf(Out(), "double").At("logits").ToVector<double>());
  }
}

}  // namespace decoders_test
}  // namespace crosstalk
