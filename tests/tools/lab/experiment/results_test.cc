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

using Rows = std::map<std::string, BySeed>;

// "a below b", in each pair.
ClaimResult Judge(const Rows& values, const std::vector<std::pair<std::string, std::string>>& pairs = {{"a", "b"}},
                  const TableMeasure& measure = kPerplexity) {
  TableClaim claim = {.text = "a below b", .source = "1", .measures = {"ln_ppl"}, .pairs = {}};
  for (const auto& [lower, higher] : pairs) claim.pairs.push_back({lower, higher});
  std::vector<BySeed> rows;
  for (const auto& [row, of_row] : values) rows.push_back(of_row);
  const auto of = [&](const std::string& row) { return values.contains(row) ? values.at(row) : BySeed(); };
  return TestClaim(
      claim, measure, [&](const std::string&) { return ScatterOf(rows); }, of);
}

// Nine more rows, whose second seed is off the first by these.
Rows WithNineMore(Rows rows, double even, double odd, double slope = 0) {
  for (int row = 0; row < 9; ++row) {
    rows["row " + std::to_string(row)] = {{1, 3.0 + row}, {2, 3.0 + row + (row % 2 == 0 ? even : odd) + slope * row}};
  }
  return rows;
}

TEST(ClaimTest, AVerdictNeedsAnIntervalOnOneSide) {
  const BySeed up = {{1, 2.0}, {2, 2.1}, {3, 2.2}};
  const Rows apart = {{"a", up}, {"b", {{1, 2.10}, {2, 2.21}, {3, 2.29}}}};  // by 0.10, 0.11, 0.09: deviation 0.01
  // As of two accuracies of 300 rows that both gain a row; rounding leaves 1e-14 of it.
  const Rows all_the_same = {{"a", {{1, 2.0}, {2, 2.3}, {3, 2.1}}}, {"b", {{1, 2.1}, {2, 2.4}, {3, 2.2}}}};
  // Two seeds have one degree of freedom in a pair of rows, t = 12.7, and ten in a table of eleven, t = 2.23: the rows
  // of a table say together how far runs scatter, and a pair that scatters more is no surer for their quiet.
  const Rows two_seeds = {{"a", {{1, 2.00}, {2, 2.02}}}, {"b", {{1, 2.02}, {2, 2.046}}}};
  const Rows scattered = {{"a", {{1, 2.00}, {2, 2.00}}}, {"b", {{1, 2.01}, {2, 2.09}}}};
  const double deviation = Summarise({0.020, 0.026, 0.03, 0.02, 0.03, 0.02, 0.03, 0.02, 0.03, 0.02, 0.03}).deviation;
  const double t_2 = 4.302652729749464, t_10 = 2.2281388519649385;
  const Rows three = {{"a", {{1, 1.0}, {2, 1.01}}}, {"b", {{1, 2.0}, {2, 2.02}}}, {"c", {{1, 2.0}, {2, 2.03}}}};
  const struct {
    const char* name;
    ClaimResult result;
    const char* verdict;
    double mean = 0, low = 0;  // 0: not looked at
  } cases[] = {
      {"on the claimed side", Judge(apart), "holds", 0.1, 0.1 - t_2 * 0.01 / std::sqrt(3.0)},
      {"a share is better where it is more", Judge(apart, {{"a", "b"}}, kAccuracy), "does not hold"},
      {"seeds that one has",
       Judge({{"a", {{1, 2.0}, {2, 2.1}, {3, 2.2}, {7, 9.0}}}, {"b", {{1, 2.10}, {2, 2.21}, {3, 2.29}, {8, 0.0}}}}),
       "holds", 0.1},
      {"one seed", Judge({{"a", {{1, 2.0}}}, {"b", {{1, 3.0}}}}), "undecided at 1 seed", 1.0},
      {"all the same", Judge(all_the_same), "undecided at 3 seeds"},
      {"all the same, of a share", Judge(all_the_same, {{"a", "b"}}, kAccuracy), "undecided at 3 seeds"},
      {"two seeds alone", Judge(two_seeds), "undecided at 2 seeds"},
      {"two seeds in a table", Judge(WithNineMore(two_seeds, 0.03, 0.02)), "holds", 0.023,
       0.023 - t_10 * deviation / std::sqrt(2.0)},  // of √2·σ, on ten degrees
      {"a pair that scatters more", Judge(WithNineMore(scattered, 0, 0, 1e-4)), "undecided at 2 seeds", 0.05,
       0.05 - t_10 * 0.08 / 2},
      {"both signs", Judge({{"a", {{1, 2.0}, {2, 2.3}}}, {"b", {{1, 2.1}, {2, 2.2}}}}), "undecided at 2 seeds"},
      {"no common seed", Judge({{"a", {{1, 2.0}}}, {"b", {{2, 2.1}}}}), "not measured"},
      {"one pair that holds", Judge(three), "holds"},
      {"and one that does not", Judge(three, {{"a", "b"}, {"b", "c"}}), "undecided at 2 seeds"}};
  for (const auto& one : cases) {
    SCOPED_TRACE(one.name);
    EXPECT_EQ(one.result.VerdictText(), one.verdict);
    if (one.mean != 0) {
      EXPECT_NEAR(one.result.pairs[0].mean, one.mean, 1e-12);
    }
    if (one.low != 0) {
      EXPECT_NEAR(one.result.pairs[0].at_95->low, one.low, 1e-9);
    }
  }
  EXPECT_EQ(cases[2].result.seeds, 3);
  for (const size_t none : {3, 4}) EXPECT_FALSE(cases[none].result.pairs[0].at_95);
}

// A pair that is 95 % against the claim refutes it alone, but not as one of two.
TEST(ClaimTest, OneOfSeveralPairsRefutesAtAStricterLevel) {
  // Differences of a and b: mean -1, deviation s, more than the three rows scatter together. With the four degrees of
  // three rows and three seeds t·s/√3 = 0.9 at 95 % (t = 2.776), 1.13 at 97.5 % (t = 3.495).
  const double s = 0.9 * std::sqrt(3.0) / 2.776445105197794;
  const Rows values = {{"a", {{1, 1 - s}, {2, 1.0}, {3, 1 + s}}},
                       {"b", {{1, 0.0}, {2, 0.0}, {3, 0.0}}},
                       {"c", {{1, 5.0}, {2, 5.0}, {3, 5.0}}}};
  EXPECT_EQ(Judge(values).verdict, Verdict::kDoesNotHold);
  const ClaimResult result = Judge(values, {{"a", "b"}, {"b", "c"}});
  EXPECT_LT(result.pairs[0].at_95->high, 0);
  EXPECT_GT(result.pairs[0].at_most->high, 0);
  EXPECT_EQ(result.VerdictText(), "undecided at 3 seeds");
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
