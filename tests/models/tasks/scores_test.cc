// Scores of GLUE, SuperGLUE, RACE and the SQuADs, and their averages.
#include "crosstalk/models/tasks/scores.h"

#include "crosstalk/models/tasks/benchmarks.h"
#include "crosstalk/models/training/objectives/task_head.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/messages.h"

namespace crosstalk::scores_test {

// Rows, predictions and measures as these tests write them.

TaskType MakeTask(const char* name, const char* benchmark, TaskForm form, std::vector<const char*> labels) {
  TaskType type = {};
  type.name = name;
  type.benchmark = benchmark;
  type.form = form;
  type.labels = std::move(labels);
  return type;
}

// Rows "0", "1", … of these labels.
std::vector<TaskRow> LabelledRows(const std::vector<int64_t>& labels) {
  std::vector<TaskRow> rows;
  for (const int64_t label : labels) {
    TaskRow row;
    row.source = "dev.tsv, line " + std::to_string(rows.size() + 1);
    row.id = std::to_string(rows.size());
    row.labelled = true;
    row.label = label;
    rows.push_back(row);
  }
  return rows;
}

// Their predictions, in reverse: scores take them in any order.
std::vector<TaskPrediction> Answers(const std::vector<std::string>& answers) {
  std::vector<TaskPrediction> predictions;
  for (size_t i = answers.size(); i-- > 0;) predictions.push_back({std::to_string(i), answers[i], {}});
  return predictions;
}

// Rows of spans "0", "1", … with their right answers.
std::vector<TaskRow> AnsweredRows(const std::vector<std::vector<std::string>>& answers) {
  std::vector<TaskRow> rows = LabelledRows(std::vector<int64_t>(answers.size()));
  for (size_t i = 0; i < rows.size(); ++i) {
    for (const std::string& answer : answers[i]) rows[i].answers.push_back({answer, {}});
  }
  return rows;
}

std::string Names(const std::vector<Metric>& measures) {
  std::string names;
  for (const Metric& measure : measures) names += (names.empty() ? "" : " ") + measure.name;
  return names;
}

// All measures: their names, and their values in that order.
void ExpectMeasures(const std::vector<Metric>& measures, const std::string& names, const std::vector<double>& values) {
  EXPECT_EQ(Names(measures), names);
  ASSERT_EQ(measures.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_DOUBLE_EQ(measures[i].value, values[i]) << measures[i].name;
}

double ValueOf(const std::vector<Metric>& measures, const std::string& name) {
  for (const Metric& measure : measures) {
    if (measure.name == name) return measure.value;
  }
  throw std::out_of_range(name);
}

const TaskType kBinary = MakeTask("mrpc", "glue", TaskForm::kClassification, {"0", "1"});
const TaskType kBoolean = MakeTask("boolq", "superglue", TaskForm::kClassification, {"false", "true"});
const TaskType kCb = MakeTask("cb", "superglue", TaskForm::kClassification, {"entailment", "contradiction", "neutral"});

TEST(LabelScoresTest, WordsThatAreNoLabelAreWrong) {
  const auto rows = LabelledRows({0, 1, 1, 0});
  const auto answers = Answers({"maybe", "1", "", "0"});
  ExpectMeasures(FindTask("boolq").score(kBinary, rows, answers), "accuracy", {0.5});
  // 1 right, 1 missed, 1 too many.
  ExpectMeasures(FindTask("mrpc").score(kBinary, rows, answers), "accuracy f1", {0.5, 0.5});
  ExpectMeasures(FindTask("cola").score(kBinary, LabelledRows({0, 0}), Answers({"0", "0"})), "matthews_correlation",
                 {0});
}

TEST(LabelScoresTest, EveryRowNeedsItsPrediction) {
  const auto score = [](const std::vector<TaskPrediction>& predictions) {
    return [=] { FindTask("boolq").score(kBinary, LabelledRows({0, 1, 1}), predictions); };
  };
  const std::string lacks = "1 of 3 rows have no prediction; the first is the one with the id \"1\" (dev.tsv, line 2)";
  testing::ExpectRefused({{"none", score({{"0", "0", {}}, {"2", "0", {}}}), {lacks}},
                          {"two", score({{"2", "0", {}}, {"2", "0", {}}}), {"two predictions have the id \"2\""}}},
                         ErrorKind::kData);
}

TEST(LabelScoresTest, MultipleChoicesAreAnsweredAsTheyAreNamed) {
  const TaskType race = MakeTask("race", "race", TaskForm::kMultipleChoice, {});
  auto rows = LabelledRows({0, 3, 2});
  for (TaskRow& row : rows) {
    for (const char* letter : {"A", "B", "C", "D"}) row.choices.push_back({"", letter});
    row.group = "high";
  }
  rows[1].group = "middle";
  ExpectMeasures(ScoreRace(race, rows, Answers({"A", "D", "E"})), "accuracy accuracy_middle accuracy_high",
                 {2.0 / 3, 1, 0.5});
  rows.erase(rows.begin() + 1);
  EXPECT_EQ(Names(ScoreRace(race, rows, Answers({"A", "B", "C"}))), "accuracy accuracy_high");
}

TEST(LabelScoresTest, StsBReadsNumbersAsPythonDoes) {
  const TaskType sts_b = MakeTask("sts-b", "glue", TaskForm::kRegression, {});
  auto rows = LabelledRows({0, 0, 0, 0});
  for (size_t i = 0; i < rows.size(); ++i) rows[i].number = static_cast<double>(i);
  // For (0.5, 1, 2.5, -3) Σ(x - x̄)(y - ȳ) is -4.5, and the squares are 5 and 16.25.
  ExpectMeasures(ScoreStsB(sts_b, rows, Answers({" 0.5\n", "+1e0", "2.5", "-3"})), "pearson spearmanr",
                 {-4.5 / std::sqrt(5 * 16.25), -0.2});
  EXPECT_TRUE(std::isnan(ValueOf(ScoreStsB(sts_b, rows, Answers({"1", "2", "nan", "3"})), "spearmanr")));
  EXPECT_TRUE(std::isnan(ValueOf(ScoreStsB(sts_b, rows, Answers({"1", "1", "1", "1"})), "pearson")));
  EXPECT_EQ(NumberOfAnswer("\x1F\v\f 3\r\n\t"), 3);
  for (const char* none : {"", "five", "3 or 4", "+-3", "1,5", "0x10"}) EXPECT_FALSE(NumberOfAnswer(none)) << none;
  // As T5 has it: -1.
  EXPECT_DOUBLE_EQ(ValueOf(ScoreStsB(sts_b, rows, Answers({"4,0", "0", "1", "2"})), "pearson"), 1);
}

TEST(LabelScoresTest, AnswersOfNoLabelAreCounted) {
  const TaskType sts_b = MakeTask("sts-b", "glue", TaskForm::kRegression, {});
  const TaskType race = MakeTask("race", "race", TaskForm::kMultipleChoice, {});
  const auto rows = LabelledRows({0, 1, 0, 1});
  const TaskType squad = MakeTask("squad", "squad", TaskForm::kSpan, {});
  const auto answered = AnsweredRows({{"a"}, {"b"}, {"c"}, {"d"}});
  auto lettered = rows, others = rows;
  for (size_t i = 0; i < rows.size(); ++i) {
    lettered[i].choices = {{"", "A"}, {"", "B"}};
    others[i].choices = {{"", "x" + std::to_string(i)}};
  }
  const struct {
    const TaskType& type;
    const std::vector<TaskRow>& rows;
    std::string answers;  // with a bar between
    const char* says;
  } kCases[] = {
      {kBinary, rows, "1.0|0.0|1.0|0.0",
       "4 of 4 answers are no labels (0, 1); the first is \"1.0\"; they count as wrong"},
      {kBinary, rows, "0|1|yes\n|0", "1 of 4 answers is no label (0, 1); the first is \"yes\\n\"; it counts as wrong"},
      {kBinary, rows, "0|1|1|0", ""},
      {sts_b, rows, "4,0|3|five|nan", "2 of 4 answers are no numbers; the first is \"4,0\"; they count as -1"},
      {sts_b, rows, " 4.0|+3|-1|1e0", ""},
      {race, lettered, "A|C|B|c", "2 of 4 answers are no labels (A, B); the first is \"C\"; they count as wrong"},
      {race, others, "x0|x0|x2|x3", "1 of 4 answers is no label; the first is \"x0\"; it counts as wrong"},
      {squad, rows, "a|b|c|d", ""},
      {race, answered, "a|x|y|z", ""},  // as ReCoRD: in words
  };
  for (const auto& [type, some, answers, says] : kCases) {
    auto predictions = Answers(Split(answers, '|'));
    std::reverse(predictions.begin(), predictions.end());
    EXPECT_EQ(AnswersOfNoLabel(type, some, predictions), says);
  }
  EXPECT_EQ(AnswersOfNoLabel(kBinary, rows, {{"1", "x", {}}}),
            "1 of 1 answers is no label (0, 1); the first is \"x\"; it counts as wrong");
}

TEST(LabelScoresTest, CbAveragesAllItsClasses) {
  ExpectMeasures(FindTask("cb").score(kCb, LabelledRows({0, 1, 1, 2}),
                                      Answers({"entailment", "entailment", "neutral", "neutral"})),
                 "accuracy f1", {0.5, 4.0 / 9});
  ExpectMeasures(FindTask("cb").score(kCb, LabelledRows({0}), Answers({"entailment"})), "accuracy f1", {1, 1.0 / 3});
}

TEST(LabelScoresTest, MultiRcScoresOptionsAndQuestions) {
  auto rows = LabelledRows({1, 0, 1, 0, 0, 1});
  for (size_t i = 0; i < rows.size(); ++i) rows[i].group = i < 3 ? "0-0" : i < 5 ? "0-1" : "1-0";
  std::swap(rows[2], rows[4]);  // questions need not stand together
  // Precisions 1/2, 1 (none chosen), 1 (none chosen); recalls 1/2, 1 (none to choose), 0. Two wrong, none, one wrong.
  const double precision = (0.5 + 1 + 1) / 3, recall = (0.5 + 1 + 0) / 3;
  ExpectMeasures(ScoreMultiRc(kBoolean, rows, Answers({"true", "true", "false", "false", "false", "maybe"})),
                 "exact_match f1_m f1_a em1",
                 {1.0 / 3, 2 * precision * recall / (precision + recall), 2.0 * 1 / (3 + 2), 2.0 / 3});
}

TEST(LabelScoresTest, RecordTakesTheBestOfItsAnswers) {
  const TaskType record = MakeTask("record", "superglue", TaskForm::kSpan, {});
  const auto rows = AnsweredRows({{"United Nations", "U.N."}, {"Kofi Annan"}, {"the"}, {"x"}});
  ExpectMeasures(ScoreRecord(record, rows, {{"0", "the UN", {}}, {"1", "Annan", {}}, {"2", "a", {}}}), "exact_match f1",
                 {0.5, (1 + 2.0 / 3) / 4});
  testing::ExpectError([&] { ScoreRecord(record, AnsweredRows({{}}), Answers({""})); }, ErrorKind::kData,
                       {"line 1: has no answer"});
}

// The names under which a task's own score is looked for are measures of it.
TEST(LabelScoresTest, EveryTaskHasTheMeasuresThatItNames) {
  for (const TaskType& type : TaskTypes()) {
    SCOPED_TRACE(type.name);
    auto rows = AnsweredRows({{"one"}, {"two"}});
    std::vector<std::string> answers = {"one", "two"};
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].number = static_cast<double>(i);
      rows[i].label = static_cast<int64_t>(i);
      rows[i].choices = {{"", "one"}, {"", "two"}};
      if (type.form == TaskForm::kClassification) answers[i] = type.labels[i];
      if (type.form == TaskForm::kRegression) answers[i] = std::to_string(i);
    }
    const double score = MainScore(type, type.score(type, rows, Answers(answers)));
    const bool three = std::string_view(type.name) == "cb";  // one class of the three is not there: (1 + 2/3) / 2
    EXPECT_DOUBLE_EQ(score, three ? 5.0 / 6 : 1);
  }
}

TEST(LabelScoresTest, GenderParityIsOfPairs) {
  auto rows = LabelledRows({0, 1, 1, 1});
  EXPECT_EQ(Names(ScoreAxG(kBoolean, rows, Answers({"false", "true", "true", "false"}))), "accuracy");
  for (size_t i = 0; i < rows.size(); ++i) rows[i].group = i < 2 ? "0" : "1";
  ExpectMeasures(ScoreAxG(kBoolean, rows, Answers({"true", "true", "true", "false"})), "accuracy gender_parity",
                 {0.5, 0.5});
}

TEST(BenchmarkAverageTest, MnliIsOneTaskAndWnliMayBeLeftOut) {
  const std::map<std::string, double> scores = {{"cola", 0.1}, {"sst-2", 0.2},  {"mrpc", 0.3}, {"sts-b", 0.4},
                                                {"qqp", 0.5},  {"mnli-m", 0.6}, {"qnli", 0.7}, {"mnli-mm", 1},
                                                {"rte", 0.9},  {"wnli", 0},     {"ax", 77}};
  const auto averages = BenchmarkAverages("glue", scores);
  ASSERT_EQ(averages.size(), 2u);
  EXPECT_EQ(averages[0].name, "average");
  EXPECT_DOUBLE_EQ(averages[0].value, (0.1 + 0.2 + 0.3 + 0.4 + 0.5 + 0.8 + 0.7 + 0.9) / 9);
  EXPECT_EQ(averages[0].tasks, 9);
  EXPECT_EQ(averages[0].of, 9);
  EXPECT_EQ(averages[1].name, "average_without_wnli");
  EXPECT_DOUBLE_EQ(averages[1].value, (0.1 + 0.2 + 0.3 + 0.4 + 0.5 + 0.8 + 0.7 + 0.9) / 8);
  EXPECT_EQ(averages[1].of, 8);
}

TEST(BenchmarkAverageTest, MissingTasksAreNotCounted) {
  const auto averages = BenchmarkAverages("superglue", {{"cb", 0.5}, {"rte", 1}, {"mnli-m", 0}});
  ASSERT_EQ(averages.size(), 1u);
  EXPECT_EQ(averages[0].value, 0.75);
  EXPECT_EQ(averages[0].tasks, 2);
  EXPECT_EQ(averages[0].of, 8);
  EXPECT_EQ(BenchmarkAverages("glue", {{"mnli-mm", 0.5}})[0].value, 0.5);
  EXPECT_TRUE(std::isnan(BenchmarkAverages("glue", {})[0].value));
}

TEST(BenchmarkAverageTest, EveryBenchmarkIsOfKnownTasks) {
  for (const std::string& benchmark : BenchmarkNames()) {
    for (const std::string& task : BenchmarkTasks(benchmark)) EXPECT_EQ(FindTask(task).name, task);
  }
  testing::ExpectError([] { BenchmarkTasks("squad"); }, ErrorKind::kUsage,
                       {"benchmark: \"squad\" is none of glue, superglue"});
}

// ---- SQuAD ----

const TaskType kSquad = MakeTask("squad", "squad", TaskForm::kSpan, {});
const TaskType kSquadV2 = MakeTask("squad-v2", "squad", TaskForm::kSpan, {});

TEST(SquadScoreTest, WorkedValuesOfT5) {
  const auto rows = AnsweredRows({{"big moose", "hippo"}, {"correct1"}, {"correct2.1", "correct2.2"}, {"a", "b"}});
  ExpectMeasures(ScoreSquad(kSquad, rows, Answers({"‘a big  Moose!‘", "wrong", "correct2.2", "c"})), "exact_match f1",
                 {25, 35});
}

TEST(SquadScoreTest, AMissingAnswerScoresZeroInTheFirst) {
  const auto rows = AnsweredRows({{"x"}, {"y"}});
  EXPECT_EQ(ValueOf(ScoreSquad(kSquad, rows, {{"1", "y", {}}}), "exact_match"), 50);
  EXPECT_EQ(ValueOf(ScoreSquad(kSquad, rows, {}), "f1"), 0);
  // A prediction of no row is not looked at.
  EXPECT_EQ(ValueOf(ScoreSquad(kSquad, rows, {{"1", "y", {}}, {"other", "x", {}}}), "f1"), 50);
}

// Probabilities are of all or none; in version two each row needs its prediction.
TEST(SquadScoreTest, WhatCannotBeScoredIsNamed) {
  using Predictions = std::vector<TaskPrediction>;
  const auto rows = AnsweredRows({{"x"}, {}}), three = AnsweredRows({{"x"}, {"y"}, {}});
  auto unlabelled = AnsweredRows({{"x"}, {"y"}});
  unlabelled[1].labelled = false;
  const auto first = [](const std::vector<TaskRow>& some, const Predictions& predictions) {
    return [=] { ScoreSquad(kSquad, some, predictions); };
  };
  const auto second = [](const std::vector<TaskRow>& some, const Predictions& predictions) {
    return [=] { ScoreSquadV2(kSquadV2, some, predictions); };
  };
  const std::string lacks = "squad-v2: 2 of 3 rows have no prediction; the first is the one with the id \"0\"";
  const double nan = std::nan("");
  testing::ExpectRefused(
      {{"twice", first(AnsweredRows({{"x"}}), {{"0", "x", {}}, {"0", "y", {}}}), {"two predictions have the id \"0\""}},
       {"no answer", first(AnsweredRows({{}}), Answers({"x"})), {"line 1: has no answer"}},
       {"no rows", first({}, {}), {"no rows"}},
       {"no label", first(unlabelled, Answers({"x", "y"})), {"line 2: has no label"}},
       {"no prediction", second(three, {{"1", "y", {}}}), {lacks}},
       {"the second without", second(rows, {{"0", "x", 0.5}, {"1", "x", {}}}), {"that of \"1\" does not"}},
       {"the first without", second(rows, {{"0", "x", {}}, {"1", "x", 0.5}}), {"that of \"0\" does not"}},
       {"NaN", second(rows, {{"0", "x", 0.5}, {"1", "x", nan}}), {"is not a number"}}},
      ErrorKind::kData);
}

TEST(SquadScoreTest, WithAndWithoutAnAnswer) {
  const auto rows = AnsweredRows({{"big moose"}, {}, {"the", "x y"}, {}, {"!"}});
  // Against "x y" alone, as "the" has no words; the last answers have none, and neither has the prediction.
  const double f1 = 100.0 * (2.0 / 3 + 2.0 / 3 + 1) / 3;
  ExpectMeasures(ScoreSquadV2(kSquadV2, rows, Answers({"moose", "", "x", "z", "the"})),
                 "exact f1 total HasAns_exact HasAns_f1 HasAns_total NoAns_exact NoAns_f1 NoAns_total",
                 {40, (3 * f1 + 100) / 5, 5, 100.0 / 3, f1, 3, 50, 50, 2});
  EXPECT_EQ(ValueOf(ScoreSquadV2(kSquadV2, AnsweredRows({{"the", "x y"}}), Answers({"an"})), "exact"), 0);
  // Where all have an answer, nothing is said of the others.
  EXPECT_EQ(Names(ScoreSquadV2(kSquadV2, AnsweredRows({{"x"}}), Answers({"x"}))),
            "exact f1 total HasAns_exact HasAns_f1 HasAns_total");
}

TEST(SquadScoreTest, AboveTheThresholdThereIsNoAnswer) {
  const auto rows = AnsweredRows({{"x"}, {"y"}, {}, {}});
  const std::vector<TaskPrediction> predictions = {{"0", "x", 0.1}, {"1", "y", 0.5}, {"2", "z", 0.6}, {"3", "", 0.7}};
  EXPECT_EQ(ValueOf(ScoreSquadV2(kSquadV2, rows, predictions), "exact"), 75);
  EXPECT_EQ(ValueOf(ScoreSquadV2At(0.5, kSquadV2, rows, predictions), "exact"), 100);
  EXPECT_EQ(ValueOf(ScoreSquadV2At(0.4, kSquadV2, rows, predictions), "HasAns_exact"), 50);
}

TEST(SquadScoreTest, TheBestThresholdIsThatOfThePassOverSortedPredictions) {
  const auto rows = AnsweredRows({{"x"}, {"y y"}, {}, {}});
  std::vector<TaskPrediction> predictions = {{"3", "", 0.9}, {"2", "z", 0.3}, {"1", "y", 0.3}, {"0", "x", 0.1}};
  auto measures = ScoreSquadV2(kSquadV2, rows, predictions);
  EXPECT_EQ(Names(measures).substr(Names(measures).find("best")),
            "best_exact best_exact_thresh best_f1 best_f1_thresh");
  EXPECT_EQ(ValueOf(measures, "best_exact"), 75);  // 2 without any, 3 with the first
  EXPECT_EQ(ValueOf(measures, "best_exact_thresh"), 0.1);
  EXPECT_EQ(ValueOf(measures, "best_f1"), 75);  // at 0.3 one is lost before 2/3 are won
  EXPECT_EQ(ValueOf(measures, "best_f1_thresh"), 0.1);
  std::swap(predictions[1], predictions[2]);
  measures = ScoreSquadV2(kSquadV2, rows, predictions);
  EXPECT_EQ(ValueOf(measures, "best_f1"), 100.0 * (3 + 2.0 / 3) / 4);  // won before, so that it counts
  EXPECT_EQ(ValueOf(measures, "best_f1_thresh"), 0.3);
  // None is better than no answer anywhere.
  measures = ScoreSquadV2(kSquadV2, rows, {{"0", "", 5.0}, {"1", "", 6.0}, {"2", "", 7.0}, {"3", "", 8.0}});
  EXPECT_EQ(ValueOf(measures, "best_exact"), 50);
  EXPECT_EQ(ValueOf(measures, "best_exact_thresh"), 0);
}

// Half of the questions have the answer that is given, a third of them with a word more.
TEST(NoAnswerTest, TheBestThresholdsAnswersScoreWhatItPromises) {
  for (const uint64_t seed : {1, 2, 3, 4}) {
    RandomSequence random(RandomKey{seed, StreamId("no_answer_test"), 0});
    std::vector<TaskRow> rows = AnsweredRows(std::vector<std::vector<std::string>>(30));
    std::vector<TaskPrediction> predictions;
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::string answer(1 + random.UniformInt(5), static_cast<char>('b' + random.UniformInt(25)));
      predictions.push_back({rows[i].id, answer, 10 * random.UniformDouble() - 5});
      if (i % 2 == 0) rows[i].answers = {{answer + (i % 3 == 0 ? " more" : ""), std::nullopt}};
    }
    const std::vector<Metric> before = ScoreSquadV2(kSquadV2, rows, predictions);
    EmptyAnswersAbove(BestNoAnswerThreshold(FindTask("squad-v2"), rows, predictions), &predictions);
    const std::vector<Metric> after = ScoreSquadV2(kSquadV2, rows, predictions);
    EXPECT_NEAR(ValueOf(after, "f1"), ValueOf(before, "best_f1"), 1e-9);
    EXPECT_GE(ValueOf(after, "f1"), ValueOf(before, "f1") - 1e-9);
  }
}

}  // namespace crosstalk::scores_test
