// RoBERTa's form as published folders, beside values that parity/roberta.py computes from its equations.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "crosstalk/models/interop/export.h"
#include "crosstalk/models/interop/import.h"
#include "crosstalk/models/training/finetuning.h"
#include "crosstalk/runtime/safetensors.h"
#include "tests/support/command_checks.h"
#include "tests/support/messages.h"
#include "tests/support/parity.h"
#include "tests/support/published_folder.h"

namespace crosstalk {
namespace import_roberta_test {

class ImportRobertaTest : public PublishedFolderTest {
 protected:
  static std::string Inputs(const std::string& name) { return ParityFolder(name) + "/inputs.safetensors"; }
  void Publish(const Folder& folder) {
    std::filesystem::remove_all(In());
    Store(folder, In());
  }
};

TEST_F(ImportRobertaTest, EqualsItsEquations) {
  for (const std::string name : {"roberta_mlm", "roberta_seqcls"}) {
    SCOPED_TRACE(name);
    const TensorFile expected = ReadSafetensors(ParityFolder(name) + "/expected.safetensors");
    Publish(Load(name));
    ExpectRoundTrip();
    ExpectParity(expected, Forward(Model(), Inputs(name)), 1e-10, ParityTensors::kAll, 2);
    ExpectParity(expected, Forward(Model(), Inputs(name), {}, "float"), 2e-5, ParityTensors::kAll, 2);
    // Without the published files it is written in its own form.
    Trained any = Open(Model(), {.tokenizer = TokenizerUse::kNone});
    any.imported.reset();
    std::filesystem::remove_all(Out());
    ExportModel(any, Out(), {});
    EXPECT_EQ(ReadJsonFile(Out() + "/config.json").At("model_type"), Json("roberta"));
    ExpectParity(expected, Forward(Out(), Inputs(name)), 1e-10, ParityTensors::kAll, 2);
    // Padding's row of the positions is looked up, and learns nothing.
    const Tensor gradient =
        Forward(Model(), Inputs(name), {"--gradients"}).At("grad.roberta.embeddings.position_embeddings.weight");
    for (int64_t j = 0; j < gradient.size(1); ++j) {
      EXPECT_EQ(gradient.At({1, j}), 0);
      EXPECT_NE(gradient.At({2, j}), 0);
    }
  }
}

// Padding's positions are no text's.
TEST_F(ImportRobertaTest, FinetuningReadsAsManyTokensAsThereArePositions) {
  Publish(Load("roberta_seqcls"));
  Succeeded(Import());
  const Trained any = Open(Model(), {.tokenizer = TokenizerUse::kNone});
  FinetuningLength length;
  const int64_t tokens = FinetuningConfig(any, "sst-2", &length).objective.input_length;
  EXPECT_EQ(tokens, any.model->config().longest_text());
  EXPECT_EQ(tokens, *any.model->config().max_positions - 2);
  TrainingConfig config = any.config;
  config.objective.input_length = tokens + 1;
  testing::ExpectError([&] { ConfigureModel(config, any.model->config(), any.config); }, ErrorKind::kUsage,
                       {"input_length: 13 tokens are more than max_positions = 14 less the 2 before a text's first"});
}

// It has one kind of segment: its pretraining goes on without a second sentence.
TEST_F(ImportRobertaTest, ItsPretrainingHasOneSegment) {
  Publish(Load("roberta_mlm"));
  Succeeded(Import());
  EXPECT_EQ(ToJson(ReadRunConfig(RunFolder(Model()))).At("sentence_task"), Json("none"));
  const Trained any = Open(Model(), {.tokenizer = TokenizerUse::kNone});
  TrainingConfig config = any.config;
  config.objective.sentence_task = SentenceTask::kNextSentence;
  testing::ExpectError([&] { ConfigureModel(config, any.model->config(), any.config); }, ErrorKind::kUsage,
                       {"sentence_task: next-sentence needs a second kind of segment"});
}

TEST_F(ImportRobertaTest, RelativesAndOlderFilesAreRead) {
  for (const auto& [kind, classes] : {std::pair("xlm-roberta", "XLMRoberta"), {"camembert", "Camembert"}}) {
    SCOPED_TRACE(kind);
    Folder folder = Load("roberta_mlm");
    folder.config.Set("model_type", kind).Set("architectures", Json::MakeArray({StrCat(classes, "ForMaskedLM")}));
    folder.tensors["lm_head.decoder.weight"] = folder.tensors.at("roberta.embeddings.word_embeddings.weight");
    folder.tensors["lm_head.decoder.bias"] = folder.tensors.at("lm_head.bias");
    folder.tensors["roberta.embeddings.position_ids"] = Counting(14);
    Publish(folder);
    ExpectRoundTrip();
    ExpectParity(ReadSafetensors(ParityFolder("roberta_mlm") + "/expected.safetensors"),
                 Forward(In(), Inputs("roberta_mlm")), 1e-10, ParityTensors::kAll, 2);
  }
  // The pooler of the model that a classification began with is kept, and has no effect.
  Folder folder = Load("roberta_seqcls");
  folder.tensors["roberta.pooler.dense.weight"] = Tensor::Full({12, 12}, 3, DType::kFloat32);
  folder.tensors["roberta.pooler.dense.bias"] = Tensor::Full({12}, 3, DType::kFloat32);
  Publish(folder);
  ExpectRoundTrip();
  ExpectParity(ReadSafetensors(ParityFolder("roberta_seqcls") + "/expected.safetensors"),
               Forward(In(), Inputs("roberta_seqcls")), 1e-10, ParityTensors::kAll, 2);
  // The model alone, without its prefix, and with a pooler that counts.
  Folder bare = Load("roberta_mlm");
  const Tensors tensors = bare.tensors;
  bare.tensors = {{"pooler.dense.weight", folder.tensors.at("roberta.pooler.dense.weight")},
                  {"pooler.dense.bias", folder.tensors.at("roberta.pooler.dense.bias")}};
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with("roberta.")) bare.tensors[name.substr(8)] = tensor;
  }
  bare.config.Set("architectures", Json::MakeArray({"RobertaModel"}));
  Publish(bare);
  ExpectRoundTrip();
  EXPECT_TRUE(Open(Model(), {.tokenizer = TokenizerUse::kNone}).model->heads().pooler);
}

TEST_F(ImportRobertaTest, WhatIsNotComputedIsRefusedByName) {
  const auto refuse = [&](const char* name, const char* key, const Json& value, const std::vector<std::string>& words) {
    SCOPED_TRACE(key);
    Folder folder = Load(name);
    folder.config.Set(key, value);
    Publish(folder);
    ExpectRefused(words);
  };
  refuse("roberta_mlm", "hidden_act", "relu", {"hidden_act", "relu", "lm_head", "gelu"});
  refuse("roberta_mlm", "pad_token_id", 20, {"pad_token_id", "20", "14"});
  refuse("roberta_mlm", "architectures", Json::MakeArray({"RobertaForCausalLM"}),
         {"architectures", "RobertaForCausalLM"});
  refuse("roberta_mlm", "architectures", Json::MakeArray({"BertForMaskedLM"}), {"architectures", "BertForMaskedLM"});
  refuse("roberta_seqcls", "problem_type", "multi_label_classification", {"problem_type"});
  refuse("roberta_seqcls", "num_labels", 5, {"num_labels"});
  // 14 positions less the padding's and the one before it.
  Publish(Load("roberta_mlm"));
  WriteSafetensors(dir_ / "in.safetensors",
                   std::vector<NamedTensor>{{"input_ids", Tensor::Full({1, 13}, 5, DType::kInt64)}});
  ExpectExit(RunCommand({"forward", In(), "--inputs", dir_ / "in.safetensors", "--output", dir_ / "out.safetensors"}),
             3, {"input_ids", "13", "12 positions"});
}

}  // namespace import_roberta_test
}  // namespace crosstalk
