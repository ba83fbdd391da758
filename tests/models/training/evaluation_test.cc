#include "crosstalk/models/training/evaluation.h"

#include "crosstalk/models/training/trained.h"
#include "tests/support/messages.h"

namespace crosstalk::evaluation_test {

std::vector<std::string> Keys(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.AsObject()) keys.push_back(key);
  return keys;
}

TEST(EvaluationTest, AStateIsReadBack) {
  RunEvaluation plain{.step = 7, .baselines = {.entropy_bound = 0.5}};
  plain.result.metrics = {{"ln_ppl", 2.5}};
  plain.result.tokens = 100;
  plain.result.examples = 4;
  RunEvaluation guessed = plain;
  guessed.result.metrics.push_back({"masked_accuracy", 0.25});
  guessed.baselines.constant_guess = {{"masked_accuracy", 0.125}};
  RunEvaluation undefined = plain;
  undefined.result.metrics = {{"score", 0}, {"sts-b_pearson", std::nan("")}};
  undefined.baselines.constant_guess = undefined.result.metrics;
  for (const RunEvaluation& evaluation : {plain, guessed, undefined}) {
    const Json state = ToJson(evaluation);
    EXPECT_EQ(ToJson(FromJson<RunEvaluation>(state, "state.json")), state);
  }
  EXPECT_EQ(Keys(EvaluationMembers(plain)),
            (std::vector<std::string>{"step", "ln_ppl", "loss_lower_bound", "tokens", "examples"}));
  EXPECT_EQ(EvaluationMembers(guessed).At("constant_guess").At("masked_accuracy").AsDouble(), 0.125);
  EXPECT_EQ(EvaluationMembers(guessed).At("masked_accuracy").AsDouble(), 0.25);
  // What is undefined is null, and stays so.
  EXPECT_TRUE(ToJson(undefined).At("metrics").At("sts-b_pearson").is_null());
  const RunEvaluation again = FromJson<RunEvaluation>(ToJson(undefined), "state.json");
  EXPECT_TRUE(std::isnan(again.result.metrics[1].value));
  EXPECT_TRUE(EvaluationMembers(again).At("constant_guess").At("sts-b_pearson").is_null());
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
    const Json state = Json::MakeObject({{"step", 7}, {"evaluation", Json(good).Set(key, ParseJson(value, "value"))}});
    testing::ExpectError([&] { FromJson<CheckpointState>(state, "state.json"); }, ErrorKind::kData,
                         {std::string("state.json: evaluation.") + key});
  }
}

}  // namespace crosstalk::evaluation_test
