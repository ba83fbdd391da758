// Published folders as the fifth version of Hugging Face's library writes them: which tensor is a model's output, what
// scales it, which ids end a text, what buffers and prefixes lie beside.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/interop/export.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/command_checks.h"
#include "tests/support/parity.h"
#include "tests/support/published_folder.h"

namespace crosstalk {
namespace import_fifth_test {

class ImportFifthTest : public PublishedFolderTest {
 protected:
  void Publish(const Folder& folder) {
    std::filesystem::remove_all(In());
    Store(folder, In());
  }
  Tensor LogitsOf(const Folder& folder) {
    Publish(folder);
    return Forward(In(), ParityFolder("t5_relu_tied") + "/inputs.safetensors").At("logits");
  }
};

// The output's own table is twice the embedding, so that each case is a factor to the logits of the model as it is.
TEST_F(ImportFifthTest, AT5sOutputIsTiedAndScaledAsItsFilesSay) {
  const Folder usual = Load("t5_relu_tied");
  const Tensor logits = LogitsOf(usual);
  const double root = std::sqrt(static_cast<double>(usual.config.At("d_model").AsInt()));
  const Json none;
  const struct {
    Json tie, scale;
    double own;  // lm_head.weight by the embedding; 0: there is none
    double factor;
  } cases[] = {{true, none, 0, 1},  {true, true, 0, 1},         {true, false, 0, root},     {false, none, 0, root},
               {false, true, 0, 1}, {true, false, 2, 2 * root}, {false, none, 2, 2 * root}, {true, none, 2, 2},
               {false, true, 2, 2}, {true, false, 1, root},     {false, none, 1, root},     {true, true, 1, 1}};
  for (const auto& test : cases) {
    SCOPED_TRACE(test.tie.Dump() + " " + test.scale.Dump() + " " + std::to_string(test.own));
    Folder folder = usual;
    folder.config.Set("tie_word_embeddings", test.tie).Set("scale_decoder_outputs", test.scale);
    if (test.own != 0) {
      Tensor own = folder.tensors.at("shared.weight").Clone();
      for (int64_t i = 0; i < own.num_elements(); ++i) own.data<float>()[i] *= static_cast<float>(test.own);
      folder.tensors["lm_head.weight"] = own;
    }
    const Tensor changed = LogitsOf(folder);
    for (int64_t i = 0; i < logits.num_elements(); ++i) {
      ASSERT_NEAR(changed.data<double>()[i], test.factor * logits.data<double>()[i], 1e-12 * root);
    }
    ExpectRoundTrip();
    // Without the published files the form says it again.
    Trained any = Open(Model(), {.tokenizer = TokenizerUse::kNone});
    any.imported.reset();
    ExportModel(any, dir_ / "again", {});
    const Tensor again = Forward(dir_ / "again", ParityFolder("t5_relu_tied") + "/inputs.safetensors").At("logits");
    EXPECT_EQ(again.ToVector<double>(), changed.ToVector<double>());
    std::filesystem::remove_all(dir_ / "again");
  }
}

TEST_F(ImportFifthTest, EachOfSeveralEndsEndsAText) {
  Folder folder = Load("t5_relu_tied");
  const std::string inputs = ParityFolder("t5_relu_tied") + "/inputs.safetensors";
  const auto written = [&] {
    const CommandResult result = RunCommand({"generate", In(), "--inputs", inputs, "--max-length", "12", "--json"});
    Succeeded(result);
    std::vector<std::vector<int64_t>> rows;
    for (const std::string& line : Split(result.output, '\n')) {
      if (line.empty()) continue;
      const Json answer = ParseJson(line, "line");
      rows.emplace_back();
      for (const Json& id : answer.At("ids").AsArray()) rows.back().push_back(id.AsInt());
    }
    return rows;
  };
  Publish(folder);
  const std::vector<std::vector<int64_t>> before = written();
  ASSERT_GE(before.size(), 2u);
  ASSERT_GE(before[0].size(), 4u);
  const int64_t other = before[0][2];
  // A list in either file; the generation's own is the one that a search heeds.
  for (const char* file : {"config.json", "generation_config.json"}) {
    SCOPED_TRACE(file);
    Folder changed = folder;
    const Json ends = Json::MakeArray({1, other});
    const bool of_generation = file == std::string("generation_config.json");
    if (!of_generation) changed.config.Set("eos_token_id", ends);
    Publish(changed);
    if (of_generation) {
      WriteFileAtomically(In() + "/" + file, Json::MakeObject({{"eos_token_id", ends}, {"num_beams", 4}}).Dump());
      ExpectExit(Import(), 0, {"generation_config.json: not used: num_beams"});
    }
    std::vector<std::vector<int64_t>> expected = before;
    for (std::vector<int64_t>& row : expected) {
      const auto end = std::find(row.begin(), row.end(), other);
      if (end != row.end()) row.erase(end + 1, row.end());
    }
    EXPECT_EQ(written(), expected);
    ExpectRoundTrip();
  }
  WriteFileAtomically(In() + "/generation_config.json", R"({"decoder_start_token_id": 5})");
  ExpectExit(Import(), 3, {"generation_config.json: decoder_start_token_id: is 5, but 0 in config.json"});
  WriteFileAtomically(In() + "/generation_config.json", "");
  ExpectExit(Import(), 3, {"generation_config.json: byte 0"});
}

TEST_F(ImportFifthTest, BuffersAndPrefixesAreNone) {
  Folder bert = Load("bert_pretraining");
  bert.tensors["bert.embeddings.token_type_ids"] = Tensor::Zeros({1, 40}, DType::kInt64);
  Store(bert, In());
  ExpectRoundTrip();
  bert.tensors["bert.embeddings.token_type_ids"].data<int64_t>()[3] = 1;
  Store(bert, In());
  ExpectExit(Import(), 3, {"token_type_ids", "0, 0, 0", "1 at 3"});

  for (const std::string prefix : {"module.", "_orig_mod.", "_orig_mod.module."}) {
    SCOPED_TRACE(prefix);
    Folder wrapped = Load("bert_pretraining");
    const Folder plain = wrapped;
    wrapped.tensors.clear();
    for (const auto& [name, tensor] : plain.tensors) wrapped.tensors[prefix + name] = tensor;
    Store(wrapped, In());
    ExpectExit(Import(), 0, {"begins with " + prefix});
    ExpectRoundTrip();
    wrapped.tensors.erase(prefix + "bert.pooler.dense.bias");
    wrapped.tensors["bert.pooler.dense.bias"] = plain.tensors.at("bert.pooler.dense.bias");
    Store(wrapped, In());
    ExpectExit(Import(), 3, {prefix.substr(0, prefix.find('.') + 1), "all of them must, or none"});
  }
}

TEST_F(ImportFifthTest, AnEncoderAloneIsRead) {
  Folder folder = Load("t5_relu_tied");
  std::erase_if(folder.tensors, [](const auto& one) { return one.first.starts_with("decoder."); });
  Store(folder, In());
  ExpectExit(Import(), 3, {"T5ForConditionalGeneration, but the weights have no decoder"});
  folder.config.Set("architectures", Json::MakeArray({"T5EncoderModel"})).Set("is_encoder_decoder", false);
  Store(folder, In());
  ExpectRoundTrip();
  const TensorFile given = ReadSafetensors(ParityFolder("t5_relu_tied") + "/inputs.safetensors");
  WriteSafetensors(dir_ / "in.safetensors", std::vector<NamedTensor>{{"input_ids", given.At("input_ids")},
                                                                     {"attention_mask", given.At("attention_mask")}});
  const Tensor expected = Forward(ParityFolder("t5_relu_tied"), ParityFolder("t5_relu_tied") + "/inputs.safetensors")
                              .At("encoder_last_hidden_state");
  const TensorFile got = Forward(Model(), dir_ / "in.safetensors", {"--all"});
  EXPECT_EQ(got.At("last_hidden_state").ToVector<double>(), expected.ToVector<double>());
  EXPECT_NE(got.Find("attentions.0"), nullptr);
  ExpectExit(RunCommand({"generate", In(), "--inputs", dir_ / "in.safetensors"}), 2, {"T5 encoder", "writes"});
  ExpectExit(RunCommand({"train", "--model", "t5", "--decoder-layers", "0", "--steps", "1", "--out", dir_ / "none"}), 2,
             {"no decoder"});
  EXPECT_FALSE(std::filesystem::exists(dir_ / "none"));
}

// The folders and values that its own code gives, where a checkout has them beside it.
class FifthReferenceTest : public ImportFifthTest {
 protected:
  void SetUp() override {
    const char* data = std::getenv("CROSSTALK_DATA");
    if (data == nullptr || !std::filesystem::exists(std::string(data) + "/parity5")) {
      GTEST_SKIP() << "there is no $CROSSTALK_DATA/parity5";
    }
    folders_ = std::string(data) + "/parity5/";
  }
  std::string folders_;
};

TEST_F(FifthReferenceTest, EqualsTheReferenceInBothFormsOfTheFolders) {
  for (const char* name : {"t5_flan_gated_own_head", "t5_v1_0_relu_tied", "t5_encoder_only", "mt5_own_head",
                           "byt5_style", "bert_mlm", "bert_model", "bert_seqcls", "albert_mlm", "albert_seqcls"}) {
    for (const char* config : {"config.json", "config_hub_style.json"}) {
      if (!std::filesystem::exists(folders_ + name + "/" + config)) continue;
      SCOPED_TRACE(std::string(name) + " " + config);
      std::filesystem::remove_all(In());
      std::filesystem::copy(folders_ + name, In());
      WriteFileAtomically(In() + "/config.json", ReadBytes(folders_ + name + "/" + config));
      ExpectRoundTrip();
      // What a loss of their own is made of is no input, and its gradients are none of ours.
      TensorFile inputs = ReadSafetensors(In() + "/inputs.safetensors");
      const bool has_loss = inputs.Find("loss_weights") == nullptr;
      std::erase_if(inputs.tensors, [](const NamedTensor& one) { return one.name.starts_with("loss_weights"); });
      WriteSafetensors(dir_ / "in.safetensors", inputs.tensors);
      TensorFile expected = ReadSafetensors(In() + "/expected.safetensors");
      std::erase_if(expected.tensors, [&](const NamedTensor& one) {
        return one.name.starts_with("mean_pooled") ||
               (!has_loss && (one.name == "loss" || one.name.starts_with("grad.")));
      });
      std::vector<std::string> options = {"--all"};
      if (has_loss) options.push_back("--gradients");
      ExpectParity(expected, Forward(Model(), dir_ / "in.safetensors", options), 1e-10, ParityTensors::kAll, 2);
      ExpectParity(expected, Forward(Model(), dir_ / "in.safetensors", options, "float"), 2e-5, ParityTensors::kAll, 2);
    }
  }
}

TEST_F(FifthReferenceTest, WritesWhatTheReferenceWrites) {
  for (const char* name : {"t5_flan_gated_own_head", "t5_v1_0_relu_tied", "mt5_own_head", "byt5_style"}) {
    const Trained trained = Open(folders_ + name, {.tokenizer = TokenizerUse::kNone});
    const Json generation = ReadJsonFile(folders_ + name + "/expected.json").At("generation");
    for (const auto& [kind, asked] : generation.AsObject()) {
      SCOPED_TRACE(name + (" " + kind));
      const Json& options = asked.At("options");
      const Json* const penalty = options.Find("length_penalty");
      std::vector<SearchInput> inputs;
      std::vector<std::vector<int32_t>> expected, got;
      const auto ids_of = [](const Json& list) {
        std::vector<int32_t> ids;
        for (const Json& id : list.AsArray()) ids.push_back(static_cast<int32_t>(id.AsInt()));
        return ids;
      };
      for (const Json& result : asked.At("results").AsArray()) {
        inputs.push_back({.ids = ids_of(result.At("prompt"))});
        expected.push_back(ids_of(result.At("sequence")));
        expected.back().erase(expected.back().begin());  // the decoder's start
      }
      const auto found = Search(
          *trained.model, inputs,
          {.max_length = options.At("max_new_tokens").AsInt(),
           .beams = options.At("num_beams").AsInt(),
           .length_penalty = penalty == nullptr ? 1 : penalty->AsDouble(),
           .early_stopping = options.Find("early_stopping") == nullptr ? EarlyStopping::kNo : EarlyStopping::kYes});
      for (const auto& answers : found) got.push_back(answers.at(0).ids);
      EXPECT_EQ(got, expected);
    }
  }
}

}  // namespace import_fifth_test
}  // namespace crosstalk
