

#include "crosstalk/models/tasks/benchmarks.h"
#include "crosstalk/models/training/objectives/task_head.h"
#include "crosstalk/runtime/random.h"
#include "tests/models/tasks/scores.h"
#include "tests/support/messages.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::squad_score_test {

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

}  // namespace crosstalk::squad_score_test
