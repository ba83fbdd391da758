// A model in every form in which it is found: a run, a checkpoint, an import, a published folder. `eval` and `predict`
// say the same of each, and what they miss where they miss something.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "tests/support/command_checks.h"
#include "tests/support/parity.h"
#include "tests/support/published_folder.h"
#include "tests/support/task_cases.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace open_model_test {

using testing::Contains;

// A vocab.txt.
std::string Letters() {
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n";
  for (char c = 'a'; c <= 'z'; ++c) vocabulary += std::string(1, c) + "\n##" + c + "\n";
  return vocabulary;
}

class OpenModelTest : public ::testing::TestWithParam<const char*> {
 protected:
  // What a published folder says of an example is 128 tokens, or as many as there are positions.
  std::string Train(const std::string& model) {
    WriteBytes(dir_ / "vocab.txt", Letters());
    const std::vector<std::string> tokenizer =
        model == "t5" ? std::vector<std::string>{"--tokenizer", "sentencepiece", "--vocabulary", "330"}
                      : std::vector<std::string>{"--tokenizer", dir_ / "vocab.txt", "--positions", "learned"};
    Succeeded(RunCommand(TinyTrain(Joined(
        {"--model", model, "--attention", "multihead", "--input-length", "128", "--steps", "2", "--out", dir_ / "run"},
        tokenizer))));
    return dir_ / "run";
  }
  // A run, its checkpoint, its published folder and an import of that.
  std::vector<std::string> Forms(const std::string& run, const std::string& checkpoint) {
    const std::string folder = run + "-published", import = run + "-import";
    Succeeded(RunCommand({"export", run, "--checkpoint", "best", "--out", folder}));
    Succeeded(RunCommand({"import", folder, "--out", import}));
    return {run, run + "/checkpoints/" + checkpoint, import, folder};
  }
  std::string Text() {
    std::string text;
    for (int i = 0; i < 100; ++i) text += "Line " + std::to_string(i) + " of a text. It is long enough.\n\n";
    WriteBytes(dir_ / "text.txt", text);
    return dir_ / "text.txt";
  }

  TempDir dir_;
};

INSTANTIATE_TEST_SUITE_P(Models, OpenModelTest, ::testing::Values("t5", "bert"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(OpenModelTest, EvalSaysTheSameOfEachForm) {
  std::string first;
  for (const std::string& form : Forms(Train(GetParam()), "step-00000002")) {
    SCOPED_TRACE(form);
    const CommandResult result = Succeeded(RunCommand(
        {"eval", form, "--data", Text(), "--batch", "4", "--eval-batches", "2", "--threads", "1", "--json"}));
    Json json = ParseJson(result.output, "output");
    EXPECT_TRUE(Contains(json.At("checkpoint").AsString(), form)) << result.output;
    json.Set("checkpoint", "").Set("step", 0);
    if (first.empty()) first = json.Dump();
    EXPECT_EQ(json.Dump(), first);
  }
}

TEST_P(OpenModelTest, PredictAnswersTheSameByEachForm) {
  // A BERT's answer is a number, which shows each bit.
  const bool is_t5 = std::string(GetParam()) == "t5";
  const std::string task = is_t5 ? "stories" : "sts-b", file = is_t5 ? "stories.tsv" : "STS-B.tsv";
  const std::string examples = is_t5 ? std::string(std::getenv("CROSSTALK_SOURCE")) + "/examples" : dir_ / "glue";
  std::string pairs = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n";
  for (int i = 0; i < 9; ++i) {
    pairs += StrCat(i, "\tg\tf\ty\to\ts\ts\t", std::string(i + 1, 'a'), " b.\tc ", std::string(3 * i + 1, 'd'), ".\t",
                    i % 5, "\n");
  }
  for (const char* name : {"train", "dev"}) WriteTaskFile(dir_ / "glue/STS-B", StrCat(name, ".tsv"), pairs);
  const std::string tuned = dir_ / "tuned";
  Succeeded(RunCommand({"finetune", "--from", Train(GetParam()), "--task", task, "--task-data", examples, "--out",
                        tuned, "--batch", "2", "--steps", "2", "--eval-every", "0"}));
  std::string first;
  for (const std::string& form : Forms(tuned, "step-00000002")) {
    SCOPED_TRACE(form);
    std::filesystem::remove_all(dir_ / "answers");
    Succeeded(RunCommand(
        {"predict", form, "--task", task, "--task-data", examples, "--split", "dev", "--out", dir_ / "answers"}));
    const std::string answers = ReadBytes(dir_ / "answers/dev/" + file);
    if (first.empty()) first = answers;
    EXPECT_EQ(answers, first);
  }
  EXPECT_EQ(first, ReadBytes(tuned + "/predictions/dev/" + file));
  const std::string folder = tuned + "-published";
  ExpectExit(RunCommand({"predict", folder, "--task-data", examples, "--out", dir_ / "x"}), 2, {"--task is missing"});
  ExpectExit(RunCommand({"predict", folder, "--task", task, "--out", dir_ / "x"}), 2, {"--task-data is missing"});
  if (is_t5) return;
  ExpectExit(RunCommand({"eval", folder, "--data", Text()}), 2, {"has no head for hidden tokens", "predict"});
  ExpectExit(RunCommand({"predict", Forms(dir_ / "run", "step-00000002")[3], "--task", task, "--task-data", examples,
                         "--out", dir_ / "x"}),
             2, {"no head for the regression of sts-b"});
}

// What a checkpoint holds is protected by its checksums, and needs nothing of the run's file.
TEST(OpenModelMistakesTest, ARunFileThatCannotBeReadKeepsNoCheckpointFromUse) {
  const TempDir dir;
  Succeeded(RunCommand(TinyTrain({"--out", dir / "run"})));
  std::string text = ReadBytes(dir / "run/run.json");
  const std::string member = "\"log_every\"";
  ASSERT_NE(text.find(member), std::string::npos);
  WriteBytes(dir / "run/run.json", text.replace(text.find(member), member.size(), "\"logs\""));
  Succeeded(RunCommand({"eval", dir / "run"}));
  Succeeded(RunCommand({"generate", dir / "run", "--text", "a ___", "--max-length", "2"}));
}

TEST(OpenModelMistakesTest, WhatIsMissingIsSaid) {
  const TempDir dir;
  std::filesystem::copy(ParityFolder("t5_relu_tied"), dir / "published");
  Succeeded(RunCommand({"import", dir / "published", "--out", dir / "import"}));
  WriteBytes(dir / "text", "text");
  for (const char* form : {"published", "import", "import/checkpoints/step-00000000"}) {
    SCOPED_TRACE(form);
    const std::string model = dir / form;
    ExpectExit(RunCommand({"eval", model, "--data", dir / "text"}), 3, {"has no tokenizer"});
    ExpectExit(RunCommand({"predict", "--run", model, "--task", "sst-2", "--out", dir / "x"}), 3, {"has no tokenizer"});
  }
  for (const char* command : {"eval", "predict", "generate", "forward", "inspect", "export"}) {
    SCOPED_TRACE(command);
    const auto refused = [&](const std::vector<std::string>& model, int code, const char* says) {
      std::vector<std::string> words = Joined({command}, model);
      if (words[0] != "eval" && words[0] != "generate") words = Joined(words, {"--out", dir / "x"});
      if (words[0] == "forward") words[words.size() - 2] = "--output";
      if (words[0] == "forward") words = Joined(words, {"--inputs", ParityFolder("t5_relu_tied/inputs.safetensors")});
      ExpectExit(RunCommand(words), code, {says});
    };
    refused({}, 2, "MODEL or --run is missing");
    refused({dir / "published", "--run", dir / "import"}, 2, "are the same option");
    refused({dir / "published", "--checkpoint", "best"}, 2, "is one of a run's, and");
    refused({dir / "import", "--checkpoint", dir / "published"}, 2, "is not of the run");
    refused({"--checkpoint", dir / "published"}, 3, "is no checkpoint");
    refused({dir / "nowhere"}, 3, "holds no run, no checkpoint and no published model");
  }
}

// A BERT that was published without the head for two segments.
TEST(OpenModelMistakesTest, AMaskedLmIsMeasuredWithoutAnotherHead) {
  const TempDir dir;
  Folder bert = Load("bert_pretraining");
  for (const char* name : {"weight", "bias"}) bert.tensors.erase(std::string("cls.seq_relationship.") + name);
  bert.config.Set("architectures", Json::MakeArray({"BertForMaskedLM"}));
  Store(bert, dir / "published");
  WriteBytes(dir / "published/vocab.txt", Letters());
  std::string text;
  for (int i = 0; i < 200; ++i) text += "some words that are read. and some more. \n\n";
  WriteBytes(dir / "text", text);
  Succeeded(RunCommand({"import", dir / "published", "--out", dir / "import"}));
  for (const char* form : {"published", "import"}) {
    const CommandResult result =
        Succeeded(RunCommand({"eval", dir / form, "--data", dir / "text", "--eval-batches", "1", "--json"}));
    const Json json = ParseJson(result.output, "output");
    EXPECT_NE(json.Find("masked_accuracy"), nullptr) << result.output;
    EXPECT_EQ(json.Find("sentence_accuracy"), nullptr) << result.output;
  }
  ExpectExit(RunCommand({"eval", dir / "published"}), 2, {"--data is missing"});
}

// A classifier's classes are those of the task, by their places: of the task's own names each must be at its place.
TEST(OpenModelMistakesTest, ClassesInAnotherOrderAreRefused) {
  const TempDir dir;
  WriteBytes(dir / "vocab.txt", Letters());
  std::string rows = "index\tsentence1\tsentence2\tlabel\n";
  for (int i = 0; i < 8; ++i)
    rows += std::to_string(i) + (i % 2 == 0 ? "\ta b\tc\tentailment\n" : "\td\te f\tnot_entailment\n");
  for (const char* name : {"train", "dev"}) WriteTaskFile(dir / "RTE", StrCat(name, ".tsv"), rows);
  Succeeded(RunCommand(TinyTrain({"--model", "bert", "--attention", "multihead", "--positions", "learned", "--steps",
                                  "1", "--tokenizer", dir / "vocab.txt", "--out", dir / "run"})));
  Succeeded(RunCommand({"finetune", "--from", dir / "run", "--task", "rte", "--task-data", dir / "RTE", "--steps", "2",
                        "--batch", "2", "--out", dir / "tuned"}));
  Succeeded(RunCommand({"export", dir / "tuned", "--out", dir / "published"}));
  const auto predict = [&](const std::vector<const char*>& classes) {
    Json config = ReadJsonFile(dir / "published/config.json"), names = Json::MakeObject();
    for (size_t i = 0; i < classes.size(); ++i) names.Set(std::to_string(i), classes[i]);
    if (!classes.empty()) WriteBytes(dir / "published/config.json", config.Set("id2label", names).DumpPretty());
    return RunCommand({"predict", dir / "published", "--task", "rte", "--task-data", dir / "RTE", "--out", dir / "x"});
  };
  ExpectExit(predict({}), 0, {"its classes are taken to be those of rte, entailment, not_entailment, in this order"});
  ExpectExit(predict({"yes", "no"}), 0, {"its classes, yes, no, are taken to be those of rte"});
  EXPECT_FALSE(Contains(Succeeded(predict({"ENTAILMENT", "NOT_ENTAILMENT"})).errors, "taken to be"));
  ExpectExit(predict({"not_entailment", "entailment"}), 2, {"are not in the order of those of rte"});
}

}  // namespace open_model_test
}  // namespace crosstalk
