// Verdicts on differences that are known, and which fields of a result are compared.
#include "tools/lab/experiment/results.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/support/messages.h"
#include "tools/lab/experiment/driver.h"

namespace crosstalk {
namespace results_test {

const TableMeasure kPerplexity = {.name = "ln_ppl", .label = "ln(PPL)"};
const TableMeasure kAccuracy = {.name = "masked_accuracy", .label = "masked accuracy"};

class ClaimTest : public ::testing::Test {
 protected:
  ClaimResult Test(const TableMeasure& measure = kPerplexity) {
    std::vector<BySeed> rows;
    for (const auto& [row, values] : values_) rows.push_back(values);
    return TestClaim(
        claim_, measure, [&](const std::string&) { return ScatterOf(rows); },
        [this](const std::string& row) { return values_[row]; });
  }

  TableClaim claim_ = {.text = "a below b", .source = "1", .measures = {"ln_ppl"}, .pairs = {{"a", "b"}}};
  std::map<std::string, BySeed> values_;
};

TEST_F(ClaimTest, HoldsWhereTheIntervalIsOnTheClaimedSide) {
  values_ = {{"a", {{1, 2.0}, {2, 2.1}, {3, 2.2}}}, {"b", {{1, 2.10}, {2, 2.21}, {3, 2.29}}}};
  const ClaimResult result = Test();
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  EXPECT_EQ(result.VerdictText(), "holds");
  EXPECT_NEAR(result.pairs[0].mean, 0.1, 1e-12);  // of 0.10, 0.11, 0.09: deviation 0.01
  EXPECT_NEAR(result.pairs[0].at_95->low, 0.1 - 4.302652729749464 * 0.01 / std::sqrt(3.0), 1e-9);
  // A share is better where it is more.
  EXPECT_EQ(Test(kAccuracy).verdict, Verdict::kDoesNotHold);
}

TEST_F(ClaimTest, OnlySeedsThatBothHaveCount) {
  values_ = {{"a", {{1, 2.0}, {2, 2.1}, {3, 2.2}, {7, 9.0}}}, {"b", {{1, 2.10}, {2, 2.21}, {3, 2.29}, {8, 0.0}}}};
  const ClaimResult result = Test();
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  EXPECT_EQ(result.seeds, 3);
}

TEST_F(ClaimTest, OneSeedDecidesNothing) {
  values_ = {{"a", {{1, 2.0}}}, {"b", {{1, 3.0}}}};
  const ClaimResult result = Test();
  EXPECT_EQ(result.VerdictText(), "undecided at 1 seed");
  EXPECT_FALSE(result.pairs[0].at_95);
  EXPECT_DOUBLE_EQ(result.pairs[0].mean, 1.0);
}

// As of two accuracies of 300 rows that both gain a row; rounding leaves 1e-14 of it.
TEST_F(ClaimTest, DifferencesThatAreAllTheSameDecideNothing) {
  values_ = {{"a", {{1, 2.0}, {2, 2.3}, {3, 2.1}}}, {"b", {{1, 2.1}, {2, 2.4}, {3, 2.2}}}};
  const ClaimResult result = Test();
  EXPECT_EQ(result.VerdictText(), "undecided at 3 seeds");
  EXPECT_FALSE(result.pairs[0].at_95);
  EXPECT_EQ(Test(kAccuracy).VerdictText(), "undecided at 3 seeds");
}

// Two seeds have one degree of freedom in a pair of rows, t = 12.7, and ten in a table of eleven, t = 2.23.
TEST_F(ClaimTest, TheRowsOfATableSayTogetherHowFarRunsScatter) {
  values_ = {{"a", {{1, 2.00}, {2, 2.02}}}, {"b", {{1, 2.02}, {2, 2.046}}}};
  EXPECT_EQ(Test().VerdictText(), "undecided at 2 seeds");
  std::vector<double> steps = {0.020, 0.026};  // from seed 1 to seed 2
  for (int row = 0; row < 9; ++row) {
    steps.push_back(row % 2 == 0 ? 0.030 : 0.020);
    values_["row " + std::to_string(row)] = {{1, 3.0 + row}, {2, 3.0 + row + steps.back()}};
  }
  const ClaimResult result = Test();
  EXPECT_EQ(result.VerdictText(), "holds");
  const double deviation = Summarise(steps).deviation;  // √2·σ, on ten degrees
  EXPECT_NEAR(result.pairs[0].at_95->low, 0.023 - 2.2281388519649385 * deviation / std::sqrt(2.0), 1e-9);
}

// A pair that scatters more than the others is no surer for their quiet.
TEST_F(ClaimTest, APairThatScattersMoreCountsWithItsOwn) {
  values_ = {{"a", {{1, 2.00}, {2, 2.00}}}, {"b", {{1, 2.01}, {2, 2.09}}}};
  for (int row = 0; row < 9; ++row) values_["row " + std::to_string(row)] = {{1, 3.0}, {2, 3.0 + 1e-4 * row}};
  const ClaimResult result = Test();
  EXPECT_EQ(result.VerdictText(), "undecided at 2 seeds");
  const double deviation = 0.08 / std::sqrt(2.0);  // of 0.01 and 0.09
  EXPECT_NEAR(result.pairs[0].at_95->low, 0.05 - 2.2281388519649385 * deviation / std::sqrt(2.0), 1e-9);
}

TEST_F(ClaimTest, DifferencesOfBothSignsDecideNothing) {
  values_ = {{"a", {{1, 2.0}, {2, 2.3}}}, {"b", {{1, 2.1}, {2, 2.2}}}};
  EXPECT_EQ(Test().VerdictText(), "undecided at 2 seeds");
}

TEST_F(ClaimTest, WithoutACommonSeedNothingIsMeasured) {
  values_ = {{"a", {{1, 2.0}}}, {"b", {{2, 2.1}}}};
  EXPECT_EQ(Test().verdict, Verdict::kNotMeasured);
}

// A pair that is 95 % against the claim refutes it alone, but not as one of two.
TEST_F(ClaimTest, OneOfSeveralPairsRefutesAtAStricterLevel) {
  // Differences of a and b: mean -1, deviation s, more than the three rows scatter together. With the four degrees of
  // three rows and three seeds t·s/√3 = 0.9 at 95 % (t = 2.776), 1.13 at 97.5 % (t = 3.495).
  const double s = 0.9 * std::sqrt(3.0) / 2.776445105197794;
  values_ = {{"a", {{1, 1 - s}, {2, 1.0}, {3, 1 + s}}}, {"b", {{1, 0.0}, {2, 0.0}, {3, 0.0}}}};
  values_["c"] = {{1, 5.0}, {2, 5.0}, {3, 5.0}};
  EXPECT_EQ(Test().verdict, Verdict::kDoesNotHold);
  claim_.pairs.push_back({"b", "c"});
  const ClaimResult result = Test();
  EXPECT_LT(result.pairs[0].at_95->high, 0);
  EXPECT_GT(result.pairs[0].at_most->high, 0);
  EXPECT_EQ(result.VerdictText(), "undecided at 3 seeds");
}

TEST_F(ClaimTest, AllPairsMustBeConfirmed) {
  values_ = {{"a", {{1, 1.0}, {2, 1.01}}}, {"b", {{1, 2.0}, {2, 2.02}}}, {"c", {{1, 2.0}, {2, 2.03}}}};
  EXPECT_EQ(Test().verdict, Verdict::kHolds);
  claim_.pairs.push_back({"b", "c"});
  EXPECT_EQ(Test().verdict, Verdict::kUndecided);
}

// Also fields that no record of ours holds, and one under its name in earlier versions.
TEST(CellRecordTest, EveryFieldThatAffectsAResultIsCompared) {
  CellRecord here;
  here.pretraining = {.values = {{"ln_ppl", 2}}, .parameters = 5, .data_fingerprint = "crc64:1"};
  here.pretraining.config.model.name = "t5";
  here.pretraining.config.objective.name = "span-corruption";
  here.finetunings["stories"].scores = {{"stories", {{"score", 0.5}}}};
  here.finetunings["stories"].config = Json::MakeObject({{"objective", "text-to-text"}, {"task", "stories"}});
  const Json good = ToJson(here), &pretraining = good.At("pretraining"), &finetunings = good.At("finetunings");
  const auto differences = [&](const Json& forged) {
    return RecordDifferences(FromJson<CellRecord>(forged, "there"), FromJson<CellRecord>(good, "here"));
  };
  const auto with = [](const Json& object, const char* key, const Json& value) { return Json(object).Set(key, value); };
  EXPECT_EQ(differences(good), std::vector<std::string>());
  EXPECT_EQ(differences(with(good, "pretraining", with(pretraining, "data_fingerprint", "x"))).size(), 1u);
  struct Case {
    bool finetuning;
    const char* key;
    Json value;
    const char* named = "";
  };
  for (const Case& one :
       {Case{false, "data", "other.txt"}, Case{false, "validation", "/other.txt"}, Case{false, "init_from", "/run"},
        Case{false, "eval_batches", 7}, Case{false, "steps", 9}, Case{false, "shards", 2},
        Case{false, "accumulate", 3, "shards"}, Case{true, "task", "rte"}, Case{true, "task_data", "/tasks"},
        Case{true, "init_from", "/run"}, Case{true, "seed", 5}, Case{true, "accumulate", 2, "shards"}}) {
    const Json& part = one.finetuning ? finetunings.At("stories") : pretraining;
    Json::Object members = part.At("configuration").AsObject();
    std::erase_if(members, [&](const auto& member) { return member.first == one.named; });
    const Json changed = with(part, "configuration", with(Json(members), one.key, one.value));
    const std::vector<std::string> found =
        differences(one.finetuning ? with(good, "finetunings", with(finetunings, "stories", changed))
                                   : with(good, "pretraining", changed));
    ASSERT_GE(found.size(), 1u) << one.key;  // what a finetuning does not say is as in the pretraining
    const std::string named = *one.named == '\0' ? one.key : one.named;
    EXPECT_TRUE(testing::Contains(found[0], named + ": ")) << found[0];
  }
}

}  // namespace results_test
}  // namespace crosstalk
