// `crosstalk score`, by the command alone.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "crosstalk/models/tasks/task.h"
#include "crosstalk/runtime/json.h"
#include "tests/support/command_checks.h"
#include "tests/support/packed.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace score_test {

using testing::Contains;

class ScoreTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories(std::filesystem::path(dir_ / name).parent_path());
    WriteBytes(dir_ / name, bytes);
    return dir_ / name;
  }
  CommandResult Score(const std::string& task, const std::string& gold, const std::string& predictions,
                      const std::vector<std::string>& more = {}) {
    return RunCommand(Joined({"score", "--task", task, "--gold", gold, "--predictions", predictions}, more));
  }
  void ExpectJson(const CommandResult& result, const std::string& json) {
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(result.output, json + "\n");
  }
  // Questions "0", "1", …, each with its right answers, as SQuAD's JSON.
  std::string Squad(const std::vector<std::vector<std::string>>& answers) {
    Json questions = Json::MakeArray();
    for (size_t i = 0; i < answers.size(); ++i) {
      Json right = Json::MakeArray();
      for (const std::string& answer : answers[i]) {
        right.Append(Json::MakeObject({{"text", answer}, {"answer_start", 0}}));
      }
      questions.Append(Json::MakeObject({{"id", std::to_string(i)},
                                         {"question", "what?"},
                                         {"answers", std::move(right)},
                                         {"is_impossible", answers[i].empty()}}));
    }
    const Json paragraph = Json::MakeObject({{"context", "A passage."}, {"qas", std::move(questions)}});
    const Json article = Json::MakeObject({{"title", "T"}, {"paragraphs", Json::MakeArray({paragraph})}});
    return Write("squad.json", Json::MakeObject({{"version", "v2.0"}, {"data", Json::MakeArray({article})}}).Dump());
  }
  // MRPC's dev set with these labels.
  std::string Mrpc(const std::string& labels) {
    std::string lines = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n";
    for (const char label : labels) lines += std::string(1, label) + "\t1\t2\tone\tanother\n";
    return Write("glue/MRPC/dev.tsv", lines);
  }
  static std::string Tsv(const std::vector<std::string>& answers) {
    std::string lines = "index\tprediction\n";
    for (size_t i = 0; i < answers.size(); ++i) lines += std::to_string(i) + "\t" + answers[i] + "\n";
    return lines;
  }
  TempDir dir_;
};

TEST_F(ScoreTest, SquadSaysWhatScoresZero) {
  const std::string gold =
      Squad({{"big moose", "hippo"}, {"correct1"}, {"correct2.1", "correct2.2"}, {"a", "b"}, {"x"}});
  const std::string predictions =
      Write("p.json", R"({"0": "‘a big  Moose!‘", "1": "wrong", "2": "correct2.2", "3": "c"})");
  const CommandResult result = Score("squad", gold, predictions, {"--json"});
  ExpectJson(result, R"({"exact_match": 20.0, "f1": 28.0})");
  EXPECT_PRED2(Contains, result.errors, "Unanswered question 4 will receive score 0.");
  const CommandResult text = Score("squad", gold, predictions);
  EXPECT_EQ(text.output, "squad, 5 rows\n  exact_match  20.0000\n  f1           28.0000\n");
}

TEST_F(ScoreTest, IdsOfNoQuestionAreLeftOutAsSquadsScriptsDo) {
  const CommandResult result =
      Score("squad", Squad({{"x"}}), Write("p.json", R"({"0": "x", "other": "y"})"), {"--json"});
  ExpectJson(result, R"({"exact_match": 100.0, "f1": 100.0})");
  EXPECT_PRED2(Contains, result.errors, "The prediction for other is left out");
}

TEST_F(ScoreTest, SquadV2TakesProbabilities) {
  const std::string gold = Squad({{"x"}, {"y y"}, {}, {}});
  const std::string predictions = Write("p.json", R"({"0": "x", "1": "y", "2": "z", "3": ""})");
  const std::string plain = R"("total": 4, "HasAns_exact": 50.0, "HasAns_f1": 83.33333333333333, "HasAns_total": 2, )"
                            R"("NoAns_exact": 50.0, "NoAns_f1": 50.0, "NoAns_total": 2)";
  // Numbers that nobody names do not count, though they lie beside the predictions.
  Write("p-na_prob.json", R"({"0": 2, "1": 2, "2": 2, "3": 2})");
  ExpectJson(Score("squad-v2", gold, predictions, {"--json"}),
             R"({"exact": 50.0, "f1": 66.66666666666666, )" + plain + "}");
  // At equal numbers the order of their file decides: 2 comes before 1 here, and costs its point first.
  const std::string na = Write("na.json", R"({"3": 0.9, "2": 0.3, "1": 0.3, "0": 0.1, "other": 0})");
  ExpectJson(Score("squad-v2", gold, predictions, {"--na-probs", na, "--json"}),
             R"({"exact": 50.0, "f1": 66.66666666666666, )" + plain +
                 R"(, "best_exact": 75.0, "best_exact_thresh": 0.1, "best_f1": 75.0, "best_f1_thresh": 0.1})");
  Write("na.json", R"({"3": 0.9, "1": 0.3, "2": 0.3, "0": 0.1})");
  const CommandResult at =
      Score("squad-v2", gold, predictions, {"--na-probs", na, "--na-prob-thresh", "0.2", "--json"});
  EXPECT_PRED2(Contains, at.output, R"({"exact": 75.0, "f1": 75.0, "total": 4, "HasAns_exact": 50.0)");
  EXPECT_PRED2(Contains, at.output, R"("best_f1": 91.66666666666666, "best_f1_thresh": 0.3})");
}

TEST_F(ScoreTest, WhatIsMissingIsAnErrorElsewhere) {
  const CommandResult squad =
      ExpectExit(Score("squad-v2", Squad({{"x"}, {}}), Write("p.json", R"({"1": ""})"), {"--json"}), 3);
  EXPECT_EQ(squad.output, "");
  EXPECT_PRED2(Contains, squad.errors, "1 of 2 rows have no prediction");
  ExpectExit(Score("mrpc", Mrpc("0110"), Write("p.tsv", Tsv({"0", "1"}))), 3,
             {"2 of 4 rows have no prediction; the first is the one with the id \"2\""});
}

TEST_F(ScoreTest, LabelsAndWords) {
  const std::string gold = Mrpc("0110");
  ExpectJson(Score("mrpc", gold, Write("p.tsv", Tsv({"0", "1", "1", "1"})), {"--json"}),
             R"({"accuracy": 0.75, "f1": 0.8})");
  // T5's words: "maybe" is wrong.
  const std::string words = Write("words.txt", "not_equivalent\nequivalent\nequivalent\nmaybe\n");
  ExpectJson(Score("mrpc", gold, words, {"--text", "--json"}), R"({"accuracy": 0.75, "f1": 0.8})");
  const std::string by_id =
      Write("words.json", R"({"3": "not_equivalent", "0": "equivalent", "1": "equivalent", "2": "equivalent"})");
  ExpectJson(Score("mrpc", gold, by_id, {"--text", "--json"}), R"({"accuracy": 0.75, "f1": 0.8})");
  ExpectExit(Score("mrpc", gold, Write("words.txt", "equivalent\n"), {"--text"}), 3, {"has 1 lines for 4 rows"});
  EXPECT_PRED2(Contains, Score("mrpc", gold, Write("words.txt", "a\nb\nc\nd\ne\n"), {"--text"}).errors,
               "more lines than the 4 rows");
  EXPECT_PRED2(Contains, Score("mrpc", gold, Write("words.json", R"({"7": "x"})"), {"--text"}).errors,
               "the id \"7\" is not one of the scored rows");
}

// The published rule's score, and a word: what is no label is wrong, and what is no number is -1.
TEST_F(ScoreTest, AnswersThatAreNoLabelsOrNumbersAreNamed) {
  const std::string floats = Write("p.tsv", Tsv({"0.0", "1.0", "1.0", "0.0"}));
  const CommandResult labels = Score("mrpc", Mrpc("0110"), floats, {"--json"});
  ExpectJson(labels, R"({"accuracy": 0.0, "f1": 0.0})");
  EXPECT_EQ(labels.errors,
            "warning: mrpc: 4 of 4 answers are no labels (0, 1); the first is \"0.0\"; they count as wrong\n");
  std::string gold = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n";
  for (int i = 0; i < 4; ++i) gold += std::to_string(i) + "\tg\tf\ty\t0\ta\tb\tone\ttwo\t" + std::to_string(i) + ".0\n";
  const CommandResult numbers =
      Score("sts-b", Write("glue/STS-B/dev.tsv", gold), Write("n.tsv", Tsv({"0,0", "1", "2", "3.0"})), {"--json"});
  EXPECT_EQ(numbers.exit_code, 0);
  EXPECT_EQ(numbers.errors, "warning: sts-b: 1 of 4 answers is no number; the first is \"0,0\"; it counts as -1\n");
  EXPECT_PRED2(Contains, numbers.output, R"({"pearson": 0.98)");
  EXPECT_EQ(Score("mrpc", Mrpc("0110"), Write("p.tsv", Tsv({"0", "1", "1", "0"}))).errors, "");
}

// A gold file and predictions as they are downloaded: packed, flat, without is_impossible.
TEST_F(ScoreTest, SquadAsTheDatasetsLibraryHasIt) {
  const std::string gold =
      R"({"id": "0", "title": "T", "context": "A passage.", "question": "?", "answers": {"text": ["passage"], "answer_start": [2]}})"
      "\n"
      R"({"id": "1", "title": "T", "context": "A passage.", "question": "?", "answers": {"text": [], "answer_start": []}})"
      "\n";
  const std::string predictions = R"({"0": "passage", "1": ""})";
  for (const auto& [gold_file, answers] :
       {std::pair(Write("v2.jsonl", gold), Write("p.json", predictions)),
        std::pair(Write("v2.jsonl.gz", Gzip(gold)), Write("p.json.gz", Gzip(predictions)))}) {
    EXPECT_PRED2(Contains, Score("squad-v2", gold_file, answers, {"--json"}).output,
                 R"({"exact": 100.0, "f1": 100.0, "total": 2, "HasAns_exact": 100.0)");
  }
}

// Of the forms of benchmarks, tests/models/tasks has all.
TEST_F(ScoreTest, AFolderOfGoldMayBeTheBenchmarksOrTheSplits) {
  const std::string article = R"({"article": "A passage.", "questions": ["Why _ ?", "What?"], "answers": ["A", "D"], )"
                              R"("options": [["a", "b", "c", "d"], ["a", "b", "c", "d"]], "id": ")";
  Write("race/dev/middle/1.txt", article + R"(middle1.txt"})");
  Write("race/dev/high/2.txt", article + R"(high2.txt"})");
  const std::string letters =
      Write("race.json", R"({"middle1.txt-0": "A", "middle1.txt-1": "D", "high2.txt-0": "B", "high2.txt-1": "E"})");
  for (const std::string& folder : {dir_ / "race/dev", dir_.path()}) {
    ExpectJson(Score("race", folder, letters, {"--json"}),
               R"({"accuracy": 0.5, "accuracy_middle": 1.0, "accuracy_high": 0.0})");
  }
}

TEST_F(ScoreTest, WhatIsNotDefinedIsNullWithAWord) {
  std::string lines = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n";
  for (const char* row : {"0", "1", "2"}) {
    lines += std::string(row) + "\tg\tf\t2000\t1\tnone\tnone\tone\tanother\t" + row + ".5\n";
  }
  const CommandResult result =
      Score("sts-b", Write("dev.tsv", lines), Write("p.tsv", Tsv({"1", "1", "1"})), {"--json"});
  ExpectJson(result, R"({"pearson": null, "spearmanr": null})");
  EXPECT_PRED2(Contains, result.errors, "pearson of sts-b is undefined (NaN)");
}

TEST_F(ScoreTest, ABenchmarkIsAveragedOverWhatIsThere) {
  Mrpc("0110");
  Write("glue/WNLI/dev.tsv", "index\tsentence1\tsentence2\tlabel\n0\tone\tanother\t1\n1\tone\tanother\t0\n");
  Write("predictions/MRPC.tsv", Tsv({"0", "1", "1", "1"}));
  Write("predictions/WNLI.tsv", Tsv({"1", "1"}));
  const std::vector<std::string> arguments = {"score",         "--benchmark",       "glue", "--gold", dir_ / "glue",
                                              "--predictions", dir_ / "predictions"};
  ExpectJson(RunCommand(Joined(arguments, {"--json"})),
             R"({"benchmark": "glue", "tasks": {"mrpc": {"accuracy": 0.75, "f1": 0.8}, "wnli": {"accuracy": 0.5}}, )"
             R"("average": 0.6375, "average_without_wnli": 0.775, )"
             R"("missing": ["cola", "sst-2", "sts-b", "qqp", "mnli-m", "mnli-mm", "qnli", "rte"]})");
  const CommandResult text = RunCommand(arguments);
  EXPECT_PRED2(Contains, text.output, "average 0.6375, over 2 of 9 tasks\naverage_without_wnli 0.7750, over 1 of 8");
  EXPECT_PRED2(Contains, text.output, "  cola      no file with its labels, no predictions\n");
  ExpectExit(
      RunCommand({"score", "--benchmark", "superglue", "--gold", dir_ / "glue", "--predictions", dir_ / "predictions"}),
      3);
}

TEST_F(ScoreTest, HostileFilesAreRefusedWithTheirName) {
  const std::string gold = Squad({{"x"}, {}});
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "[";
  const struct {
    const char* name;
    std::string bytes;
    const char* message;
  } kCases[] = {
      {"deep", deep, "p.json"},
      {"array", "[1]", "must be an object"},
      {"wrong type", R"({"0": 1, "1": ""})", "\"0\": must be a string"},
      {"twice", R"({"0": "x", "0": "y"})", "p.json"},
      {"not UTF-8", "{\"0\": \"\xFF\"}", "UTF-8"},
      {"cut off", R"({"0": "x)", "p.json"},
      {"empty", "", "empty"},
  };
  for (const auto& one : kCases) {
    const CommandResult result = ExpectExit(Score("squad-v2", gold, Write("p.json", one.bytes)), 3, {one.message});
    EXPECT_LT(result.errors.size(), 1000u) << one.name;
  }
  const std::string good = Write("p.json", R"({"0": "x", "1": ""})");
  for (const char* bytes : {R"({"0": "x", "1": 0})", R"({"0": 0.5})", "[]", R"({"0": NaN, "1": 0})"}) {
    ExpectExit(Score("squad-v2", gold, good, {"--na-probs", Write("na.json", bytes)}), 3, {"na.json"});
  }
}

TEST_F(ScoreTest, OptionsThatDoNotBelongTogether) {
  const std::string gold = Mrpc("01"), predictions = Write("p.tsv", Tsv({"0", "1"}));
  EXPECT_EQ(RunCommand({"score", "--gold", gold, "--predictions", predictions}).exit_code, 2);
  EXPECT_EQ(Score("mrpc", gold, predictions, {"--benchmark", "glue"}).exit_code, 2);
  EXPECT_EQ(Score("mrpc", gold, predictions, {"--na-probs", predictions}).exit_code, 2);
  EXPECT_EQ(Score("squad-v2", gold, predictions, {"--na-prob-thresh", "0.5"}).exit_code, 2);
  ExpectExit(Score("mrcp", gold, predictions), 2, {"--task: \"mrcp\" is none of"});
  EXPECT_EQ(Score("mrpc", dir_ / "nothing", predictions).exit_code, 3);
}

// On real dev sets, where they are there: what is right scores all there is to score.
TEST_F(ScoreTest, RightAnswersScoreFully) {
  const char* data = std::getenv("CROSSTALK_DATA");
  if (data == nullptr) GTEST_SKIP() << "CROSSTALK_DATA is not set";
  for (const TaskType& type : TaskTypes()) {
    for (const char* folder : {"/glue", "/superglue", "/squad", "/race"}) {
      const std::optional<std::string> file = FindTaskFile(type, data + std::string(folder), TaskSplit::kDev);
      if (!file || (type.name == std::string("rte") && folder == std::string("/superglue"))) continue;
      const std::vector<TaskRow> rows = type.read(type, *file, TaskSplit::kDev);
      std::vector<TaskPrediction> predictions;
      for (const TaskRow& row : rows) {
        std::string answer = row.targets[0];
        if (type.form == TaskForm::kSpan) answer = row.answers.empty() ? "" : row.answers[0].text;
        if (type.form == TaskForm::kClassification) answer = type.labels[static_cast<size_t>(row.label)];
        if (type.form == TaskForm::kMultipleChoice) answer = row.choices[static_cast<size_t>(row.label)].answer;
        if (type.form == TaskForm::kRegression) answer = std::to_string(row.number);
        predictions.push_back({row.id, answer, {}});
      }
      for (const TaskFile& one : type.write(type, rows, predictions, TaskSplit::kDev)) Write(one.name, one.contents);
      const double full = std::string(folder) == "/squad" ? 100 : 1;
      EXPECT_NEAR(MainScore(type, type.score(type, rows, predictions)), 1, 1e-12) << type.name;
      const CommandResult result = Succeeded(Score(type.name, *file, dir_.path(), {"--json"}));
      EXPECT_PRED2(Contains, result.output, full == 1 ? "1.0" : "100.0");
      // And so do the words that a text-to-text model is taught, except STS-B's rounded numbers.
      if (type.form == TaskForm::kRegression) continue;
      Json words = Json::MakeObject();
      for (const TaskRow& row : rows) words.Set(row.id, row.targets[0]);
      const CommandResult taught = Score(type.name, *file, Write("words.json", words.Dump()), {"--text", "--json"});
      EXPECT_EQ(taught.output, result.output) << type.name << ": " << taught.errors;
    }
  }
}

}  // namespace score_test
}  // namespace crosstalk
