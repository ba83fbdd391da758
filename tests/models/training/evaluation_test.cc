#include "crosstalk/models/training/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/messages.h"

namespace crosstalk {
namespace evaluation_test {

std::vector<std::string> Keys(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.AsObject()) keys.push_back(key);
  return keys;
}

TEST(EvaluationTest, AStateIsReadBack) {
  RunEvaluation evaluation{.step = 7, .baselines = {.entropy_bound = 0.5}};
  evaluation.result.metrics = {{"ln_ppl", 2.5}};
  evaluation.result.tokens = 100;
  evaluation.result.examples = 4;
  const Json state = EvaluationState(evaluation);
  EXPECT_EQ(EvaluationState(EvaluationFromState(JsonReader(state, "state.json"), 7)), state);
  EXPECT_EQ(Keys(ToJson(evaluation)),
            (std::vector<std::string>{"step", "ln_ppl", "loss_lower_bound", "tokens", "examples"}));
}

TEST(EvaluationTest, AConstantGuessIsKeptWhereThereIsOne) {
  RunEvaluation evaluation;
  evaluation.result.metrics = {{"ln_ppl", 2.5}, {"masked_accuracy", 0.25}};
  evaluation.result.tokens = evaluation.result.examples = 4;
  evaluation.baselines.constant_guess = {{"masked_accuracy", 0.125}};
  const Json state = EvaluationState(evaluation);
  EXPECT_EQ(EvaluationState(EvaluationFromState(JsonReader(state, "state.json"), 0)), state);
  EXPECT_EQ(ToJson(evaluation).At("constant_guess").At("masked_accuracy").AsDouble(), 0.125);
  EXPECT_EQ(ToJson(evaluation).At("masked_accuracy").AsDouble(), 0.25);
}

TEST(EvaluationTest, WhatIsUndefinedIsNullAndStaysSo) {
  RunEvaluation evaluation;
  evaluation.result.metrics = {{"score", 0}, {"sts-b_pearson", std::nan("")}};
  evaluation.result.examples = 4;
  evaluation.baselines.constant_guess = evaluation.result.metrics;
  const Json state = EvaluationState(evaluation);
  EXPECT_TRUE(state.At("metrics").At("sts-b_pearson").is_null());
  const RunEvaluation again = EvaluationFromState(JsonReader(state, "state.json"), 0);
  EXPECT_EQ(EvaluationState(again), state);
  EXPECT_TRUE(std::isnan(again.result.metrics[1].value));
  EXPECT_TRUE(ToJson(again).At("constant_guess").At("sts-b_pearson").is_null());
}

TEST(EvaluationTest, AStateThatNoRunWritesIsRefusedByItsMember) {
  const Json good = ParseJson(R"({"step": 7, "metrics": {"ln_ppl": 2.5}, "loss_lower_bound": null, "tokens": 100,
                                  "examples": 4, "seconds": 0.5})",
                              "good");
  const std::pair<const char*, const char*> cases[] = {{"step", "4611686018427387904"},
                                                       {"step", "8"},
                                                       {"step", "-1"},
                                                       {"tokens", "-1"},
                                                       {"examples", "0"},
                                                       {"seconds", "-0.5"},
                                                       {"metrics", "{}"},
                                                       {"metrics", R"({"ln_ppl": "low"})"},
                                                       {"metrics", R"({"score": null, "sts-b_pearson": 1})"},
                                                       {"loss_lower_bound", "\"low\""},
                                                       {"constant_guess", R"({"masked_accuracy": "low"})"}};
  for (const auto& [key, value] : cases) {
    const Json state = Json(good).Set(key, ParseJson(value, "value"));
    testing::ExpectError([&] { EvaluationFromState(JsonReader(state, "state.json"), 7); }, ErrorKind::kData,
                         {std::string("state.json: ") + key});
  }
}

}  // namespace evaluation_test
}  // namespace crosstalk
