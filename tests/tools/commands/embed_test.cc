// `crosstalk embed`: texts in, vectors out, as a folder of sentence-transformers says.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/numpy_file.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/command_checks.h"
#include "tests/support/published_folder.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace embed_test {

class EmbedTest : public PublishedFolderTest {
 protected:
  // A BERT with a vocabulary of letters, and what sentence-transformers writes beside it.
  void SetUp() override {
    Folder folder = Load("bert_pretraining");
    const int64_t vocabulary = folder.config.At("vocab_size").AsInt();
    Store(folder, In());
    std::string lines = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (int64_t i = 5; i < vocabulary; ++i) {
      lines += i < 31 ? std::string(1, static_cast<char>('a' + i - 5)) + "\n" : StrCat("##w", i, "\n");
    }
    WriteFileAtomically(In() + "/vocab.txt", lines);
    d_ = folder.config.At("hidden_size").AsInt();
    WriteFileAtomically(dir_ / "texts.txt", "a b c\nd\na b c\n\ne f g h i j k l m n o p q r s\n");
  }
  void Write(const std::string& name, const std::string& json) {
    const std::string path = In() + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    WriteFileAtomically(path, json);
  }
  void WriteModules(const std::string& pooling, const std::string& last = "Normalize") {
    const auto module = [](int i, const std::string& path, const std::string& type) {
      return StrCat(R"({"idx": )", i, R"(, "name": ")", i, R"(", "path": ")", path,
                    R"(", "type": "sentence_transformers.models.)", type, R"("})");
    };
    Write("modules.json", "[" + module(0, "", "Transformer") + ", " + module(1, "1_Pooling", "Pooling") + ", " +
                              module(2, "2_" + last, last) + "]");
    Write("1_Pooling/config.json", pooling);
  }
  Tensor Embed(const std::vector<std::string>& options = {}) {
    Succeeded(RunCommand(Joined({"embed", In(), "--texts", dir_ / "texts.txt", "--out", dir_ / "out.npy"}, options)));
    return ReadTensors(dir_ / "out.npy").tensors.at(0).tensor;
  }

  int64_t d_ = 0;
};

TEST_F(EmbedTest, WritesEveryForm) {
  const Tensor vectors = Embed();
  ASSERT_EQ(vectors.shape(), Shape({5, d_}));
  EXPECT_EQ(vectors.Select(0, 0).ToVector<float>(), vectors.Select(0, 2).ToVector<float>());
  EXPECT_NE(vectors.Select(0, 0).ToVector<float>(), vectors.Select(0, 1).ToVector<float>());
  Succeeded(RunCommand({"embed", In(), "--texts", dir_ / "texts.txt", "--out", dir_ / "out.safetensors"}));
  EXPECT_EQ(ReadTensors(dir_ / "out.safetensors").At("embeddings").ToVector<float>(), vectors.ToVector<float>());
  // JSON has each float's digits, of one batch a text too.
  const CommandResult lines = Succeeded(RunCommand({"embed", In(), "--texts", dir_ / "texts.txt", "--batch", "1"}));
  std::vector<float> values;
  int64_t input = 0;
  for (const std::string& line : Split(lines.output, '\n')) {
    if (line.empty()) continue;
    const Json one = ParseJson(line, "line");
    EXPECT_EQ(one.At("input"), Json(input++));
    for (const Json& value : one.At("vector").AsArray()) values.push_back(static_cast<float>(value.AsDouble()));
  }
  EXPECT_EQ(values, vectors.ToVector<float>());
  Succeeded(RunCommand({"embed", In(), "--texts", dir_ / "texts.txt", "--out", dir_ / "out.jsonl"}));
  EXPECT_EQ(ReadBytes(dir_ / "out.jsonl"), lines.output);
  WriteFileAtomically(dir_ / "rows.jsonl", "{\"body\": \"a b c\"}\n{\"body\": \"d\", \"text\": 3}\n");
  const CommandResult rows =
      Succeeded(RunCommand({"embed", In(), "--texts", dir_ / "rows.jsonl", "--text-field", "body"}));
  EXPECT_TRUE(lines.output.starts_with(rows.output));
  ExpectExit(RunCommand({"embed", In(), "--texts", dir_ / "rows.jsonl"}), 3, {"rows.jsonl", "line 1", "\"text\""});
}

TEST_F(EmbedTest, AFolderOfSentenceTransformersSaysHow) {
  const Tensor mean = Embed(), cls = Embed({"--pooling", "cls"});
  EXPECT_NE(mean.ToVector<float>(), cls.ToVector<float>());
  WriteModules(StrCat(R"({"word_embedding_dimension": )", d_,
                      R"(, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})"));
  Write("sentence_bert_config.json", R"({"max_seq_length": 5, "do_lower_case": false})");
  const Tensor normal = Embed();
  const Tensor same = Embed({"--pooling", "cls", "--max-length", "5"});
  EXPECT_EQ(normal.ToVector<float>(), same.ToVector<float>());
  for (int64_t i = 0; i < normal.size(0); ++i) {
    double square = 0;
    for (int64_t j = 0; j < d_; ++j) square += normal.At({i, j}) * normal.At({i, j});
    EXPECT_NEAR(square, 1, 1e-6);
  }
  ExpectExit(RunCommand({"embed", In(), "--texts", dir_ / "texts.txt"}), 0, {"1 of 5 texts are longer than 5 tokens"});
  ExpectExit(Import(), 0, {"modules.json: is not kept"});
  WriteModules(R"({"pooling_mode": "mean"})");
  EXPECT_EQ(Embed({"--pooling", "cls"}).ToVector<float>(), normal.ToVector<float>());
  EXPECT_NE(Embed().ToVector<float>(), normal.ToVector<float>());
}

TEST_F(EmbedTest, WhatIsNotComputedIsRefusedByName) {
  const auto expect = [&](const std::vector<std::string>& words) {
    ExpectExit(RunCommand({"embed", In(), "--texts", dir_ / "texts.txt"}), 3, words);
  };
  WriteModules(R"({"pooling_mode_mean_sqrt_len_tokens": true})");
  expect({"1_Pooling/config.json", "mean_sqrt_len_tokens", "mean"});
  WriteModules(R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})");
  expect({"1_Pooling/config.json", "cls and mean"});
  WriteModules(R"({"pooling_mode_cls_token": true, "word_embedding_dimension": 3})");
  expect({"word_embedding_dimension", "3"});
  WriteModules(R"({"pooling_mode_cls_token": true})", "Dense");
  expect({"modules.json", "type", "Dense", "Normalize"});
  WriteModules(R"({"pooling_mode_cls_token": true})");
  Write("sentence_bert_config.json", R"({"do_lower_case": true})");
  expect({"sentence_bert_config.json", "do_lower_case"});
  Write("sentence_bert_config.json", "[]");
  expect({"sentence_bert_config.json", "not an object"});
  Write("modules.json", R"([{"type": "sentence_transformers.models.Pooling", "path": "../x"}])");
  expect({"modules.json", "Pooling"});
  Write("modules.json", R"([{"type": "a.Transformer", "path": ""}, {"type": "a.Pooling", "path": "../x"}])");
  expect({"modules.json", "path", "../x"});
  WriteFileAtomically(dir_ / "texts.txt", "\xFF\n");
  std::filesystem::remove(In() + "/modules.json");
  expect({"texts.txt", "line 1", "UTF-8"});
  WriteFileAtomically(dir_ / "texts.txt", "");
  expect({"texts.txt"});
  std::filesystem::remove(In() + "/vocab.txt");
  expect({"tokenizer"});
}

TEST_F(EmbedTest, AnOutputThatIsAnInputOrOfNoKnownFormIsRefused) {
  const std::string rows = dir_ / "rows.jsonl";
  WriteFileAtomically(rows, "{\"text\": \"a\"}\n");
  ExpectExit(RunCommand({"embed", In(), "--texts", rows, "--out", rows}), 2, {"--out", "is the file to read"});
  EXPECT_EQ(ReadBytes(rows), "{\"text\": \"a\"}\n");
  ExpectExit(RunCommand({"embed", In(), "--texts", rows, "--out", dir_ / "out.csv"}), 2,
             {"--out", "out.csv", ".jsonl"});
}

// Before the first vector, where it can be found.
TEST_F(EmbedTest, ATextWithoutATokenIsNamedByItsLine) {
  const std::string run = dir_ / "run", texts = dir_ / "texts.txt";
  Succeeded(RunCommand(
      TinyTrain({"--model", "lm", "--out", run, "--tokenizer", "tests/models/text/tokenizers/tiny_added_tokens"})));
  std::string lines;
  for (int i = 0; i < 70; ++i) lines += "a\n";
  WriteFileAtomically(texts, lines + "\na\n");
  const CommandResult result = RunCommand({"embed", run, "--texts", texts, "--batch", "1"});
  ExpectExit(result, 3, {"texts.txt: line 71 has no token"});
  EXPECT_EQ(result.output, "");
}

}  // namespace embed_test
}  // namespace crosstalk
