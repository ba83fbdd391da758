// The paper's tables as configurations, and heads at other widths.
#include "tools/lab/experiment/scale.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "crosstalk/models/training/step_cost.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace scale_test {

struct Cost {
  int64_t parameters, multiplications;
};

// Parameters as the paper prints them, and multiplications of its pseudocode for n = m = 512, of the rows of these
// names.
const std::pair<const char*, Cost> kPrinted[] = {
    {"multihead-6x128 multihead-12x64 multihead-24x32 multihead-48x16", {2359296, 1610612736}},
    {"multihead-24x64", {4718592, 3221225472}},
    {"talking-6x128", {2359368, 1629487104}},
    {"talking-12x64 talking-6-24-6 talking-24-6-24", {2359584, 1686110208}},
    {"talking-24x32 talking-encoder-24x32 talking-decoder-24x32 talking-encoder-decoder-24x32", {2360448, 1912602624}},
    {"talking-48x16", {2363904, 2818572288}},
    {"talking-6-24-24 talking-24-24-6", {2360016, 1799356416}},
    {"logits-24x32 weights-24x32", {2359872, 1761607680}},
    {"bilinear-12", {14155776, 12079595520}},
    {"dynamic-12x64", {2801952, 2063597568}},
    {"dynamic-24x32 dynamic-encoder-24x32", {4129920, 3422552064}},
    {"dynamic-Xl-12x64 dynamic-Xw-12x64 dynamic-Ml-12x64 dynamic-Mw-12x64", {2470176, 1780482048}},
    {"logits-12x64 weights-12x64", {2359440, 1648361472}}};

// The paper does not print talking-HxD for all H: it has two projections of H·H beside multi-head attention.
Cost ExpectedCost(const std::string& row) {
  for (const auto& [names, cost] : kPrinted) {
    if (testing::Contains(StrCat(" ", names, " "), StrCat(" ", row, " "))) return cost;
  }
  const int64_t h = std::stoll(row.substr(row.find('-') + 1));
  return {2359296 + 2 * h * h, 1610612736 + 2 * 512 * 512 * h * h};
}

std::vector<Table> TablesOfPaper() {
  std::vector<Table> tables = Tables();
  std::erase_if(tables, [](const Table& table) { return !table.IsOfPaper(); });
  return tables;
}

TEST(PaperScaleTest, EveryRowHasThePapersParametersAndMultiplications) {
  const TableScale paper = LoadScale("paper");
  std::map<std::string, std::string> shared;  // tables that share a row mean the same
  int rows = 0;
  for (const Table& table : TablesOfPaper()) {
    const std::vector<TrainingConfig> configs = ConfigsOfRows(paper, table);
    for (size_t i = 0; i < configs.size(); ++i, ++rows) {
      const std::string& name = table.rows[i].name;
      const auto place = shared.emplace(table.CellName(table.rows[i]), ToJson(configs[i]).Dump()).first;
      EXPECT_EQ(place->second, ToJson(configs[i]).Dump()) << place->first;
      const AttentionCost cost =
          CostOf(LayerOfRow(configs[i]), configs[i].objective.input_length, configs[i].objective.input_length);
      EXPECT_EQ(configs[i].objective.input_length, 512) << name;
      EXPECT_EQ(cost.parameters, ExpectedCost(name).parameters) << "table " << table.name << ", " << name;
      EXPECT_EQ(cost.multiplications, ExpectedCost(name).multiplications) << "table " << table.name << ", " << name;
      const std::optional<double> printed = table.rows[i].Printed("parameters");
      EXPECT_EQ(printed.value_or(static_cast<double>(cost.parameters)), static_cast<double>(cost.parameters)) << name;
    }
  }
  EXPECT_EQ(rows, 10 + 6 + 4 + 5 + 8 + 4 + 10 + 6 + 6 + 3);
  EXPECT_EQ(shared.size(), 26u + 10u + 10u);
}

// A step of each on shapes alone: the memory that the estimate says.
TEST(PaperScaleTest, EveryConfigurationIsComputable) {
  const TableScale paper = LoadScale("paper");
  std::map<std::string, StepCost> costs;
  for (const Table& table : TablesOfPaper()) {
    const std::vector<TrainingConfig> configs = ConfigsOfRows(paper, table);
    for (size_t i = 0; i < configs.size(); ++i) {
      StepCost& cost = costs[table.CellName(table.rows[i])];
      if (cost.parameters > 0) continue;
      const ResolvedConfig resolved(configs[i]);
      cost = EstimateStep(resolved, VocabularyOf(*resolved, nullptr));
      EXPECT_GT(cost.total_bytes, 8 * cost.parameters) << table.rows[i].name;  // parameters and gradients
    }
  }
  // T5 base: 24,674,304 in the embedding of 32,128 ids; in each of 12 + 12 blocks 4,718,592 between 768 and 3072 and
  // 2,359,296 of attention, twice in the decoder; norms and relative biases.
  const int64_t blocks = 24 * 4718592LL + 36 * 2359296LL, norms = (12 * 2 + 12 * 3 + 2) * 768LL, biases = 2 * 32 * 12LL;
  EXPECT_EQ(costs["t5-multihead-12x64"].parameters, 32128 * 768LL + blocks + norms + biases);
}

TEST(ScaledHeadsTest, IsTheNearestNumberThatDivides) {
  EXPECT_EQ(ScaledHeads(6, 1.0 / 3, 256), 2);
  EXPECT_EQ(ScaledHeads(48, 1.0 / 3, 256), 16);
  EXPECT_EQ(ScaledHeads(6, 0.25, 192), 2);  // 1.5: the larger of two as near
  EXPECT_EQ(ScaledHeads(12, 0.25, 192), 3);
  EXPECT_EQ(ScaledHeads(768, 0.25, 192), 192);
  EXPECT_EQ(ScaledHeads(20, 0.25, 64), 4);  // 5 does not divide 64
}

// At a third of the width, tables 1 and 2 have a third of the heads, with the keys of the paper.
TEST(ScaleTest, RowsKeepTheirMeaningAtAnotherWidth) {
  const TableScale scale = ScaleFromJson(ParseJson(R"({"name": "third", "about": "", "seeds": 1, "models": {"t5":
      {"pretraining": {"d_model": 256}, "finetuning": []}}})",
                                                   "scale"),
                                         "scale");
  const Table& first = Tables()[0];
  const std::vector<std::vector<int64_t>> expected = {{2, 2, 2, 128, 128},  {4, 4, 4, 64, 64},    {8, 8, 8, 32, 32},
                                                      {16, 16, 16, 16, 16}, {2, 2, 2, 128, 128},  {4, 4, 4, 64, 64},
                                                      {8, 8, 8, 32, 32},    {16, 16, 16, 16, 16}, {8, 8, 8, 64, 64}};
  for (size_t i = 0; i < expected.size(); ++i) {
    const AttentionConfig layer = LayerOfRow(ConfigOfRow(scale, first, first.rows[i]));
    EXPECT_EQ((std::vector<int64_t>{layer.h_k, layer.h, layer.h_v, layer.d_k, layer.d_v}), expected[i])
        << first.rows[i].name;
  }
  EXPECT_EQ(LayerOfRow(ConfigOfRow(scale, first, first.rows[9])).h, 4);
  const Table& second = Tables()[1];
  const AttentionConfig rectangular = LayerOfRow(ConfigOfRow(scale, second, second.rows[3]));  // 6, 24, 24
  EXPECT_EQ(rectangular.h_k, 2);
  EXPECT_EQ(rectangular.h, 8);
  EXPECT_EQ(rectangular.h_v, 8);
  EXPECT_EQ(rectangular.d_k, 128);
  EXPECT_EQ(rectangular.d_v, 32);
}

TEST(ScaleTest, EveryScaleHasEveryTable) {
  for (const std::string& name : ScaleNames()) {
    const TableScale scale = LoadScale(name);
    EXPECT_EQ(scale.name, name);
    for (const Table& table : Tables()) {
      if (scale.models.count(table.model) == 0) {
        EXPECT_TRUE(name == "paper" && !table.IsOfPaper()) << name << ", table " << table.name;
        continue;
      }
      for (const TrainingConfig& config : ConfigsOfRows(scale, table)) ResolvedConfig checked(config);
    }
  }
}

// The text of a scale is found beside its file, from wherever that is used.
TEST(ScaleTest, PathsAreRelativeToTheFile) {
  const auto of = [](const char* validation) {
    const std::string text = StrCat(
        R"({"name": "a", "about": "", "seeds": 1, "models": {"t5": {"pretraining": {"data": "text/a.txt", "validation": ")",
        validation, R"(", "tokenizer": "characters", "accumulate": 2},
        "finetuning": [{"task": "rte", "config": {"task_data": "../glue", "steps": 7}}]}}})");
    return ScaleFromJson(ParseJson(text, "a.json"), "a.json", "some/folder").models.at("t5");
  };
  const ScaleModel model = of("/b.txt");
  EXPECT_EQ(model.pretraining.data.text, "some/folder/text/a.txt");
  EXPECT_EQ(model.pretraining.data.validation, "/b.txt");
  EXPECT_EQ(model.pretraining.data.tokenizer, "characters");
  EXPECT_EQ(model.pretraining.optimization.shards, 2);
  EXPECT_EQ(model.finetunings.at(0).config, Json::MakeObject({{"task_data", "some/folder/../glue"}, {"steps", 7}}));
  const TempDir dir;
  std::ofstream(dir / "a.json")
      << R"({"name": "a", "about": "", "seeds": 1, "models": {"t5": {"pretraining": {"data": "a.txt"},
      "finetuning": []}}})";
  EXPECT_EQ(LoadScale(dir / "a.json").models.at("t5").pretraining.data.text, dir / "a.txt");
}

TableScale WithT5(const std::string& members) {
  return ScaleFromJson(
      ParseJson(R"({"name": "a", "about": "", "seeds": 1, "models": {"t5": {)" + members + "}}}", "a.json"), "a.json");
}

TEST(ScaleTest, AModelMayHaveItsOwnNumberOfSeeds) {
  const Table& first = Tables()[0];
  EXPECT_EQ(WithT5(R"("pretraining": {}, "finetuning": [])").SeedsOf(first), 1);
  EXPECT_EQ(WithT5(R"("pretraining": {}, "finetuning": [], "seeds": 7)").SeedsOf(first), 7);
}

TEST(ScaleTest, ATableMayHaveItsOwnSettings) {
  const TableScale scale = LoadScale("small");
  const auto table = [](const std::string& name) {
    return *std::find_if(Tables().begin(), Tables().end(), [&](const Table& one) { return one.name == name; });
  };
  const Table puzzles = table("puzzles"), heads = table("heads");
  EXPECT_EQ(ConfigOfRow(scale, puzzles, puzzles.rows[0]).optimization.steps, 2000);
  EXPECT_EQ(ConfigOfRow(scale, puzzles, puzzles.rows[0]).model.name, "lm");
  EXPECT_EQ(ConfigOfRow(scale, heads, heads.rows[0]).optimization.steps, 1000);
  EXPECT_EQ(scale.SeedsOf(puzzles), 3);
  EXPECT_EQ(scale.SeedsOf(heads), 2);
}

TEST(ScaleTest, RowsThatWouldBeTheSameAreRefused) {
  const TableScale scale = WithT5(R"("pretraining": {"d_model": 64}, "finetuning": [])");
  testing::ExpectError([&] { ConfigsOfRows(scale, Tables()[0]); }, ErrorKind::kUsage,
                       {"multihead-6x128 and multihead-12x64"});
  // 6 and 24 heads become 2 and 6, which are not four times as many.
  const TableScale other = WithT5(R"("pretraining": {"d_model": 192}, "finetuning": [])");
  testing::ExpectError([&] { ConfigsOfRows(other, Tables()[1]); }, ErrorKind::kUsage, {"another ratio"});
}

TEST(ScaleTest, WhatAFileSaysWrongIsNamed) {
  const std::string none = R"("pretraining": {}, "finetuning": [)";
  testing::ExpectRefused<std::string>(
      {{"another key", R"("pretraining": {"d_modle": 64}, "finetuning": [])", {"a.json", "did you mean \"d_model\"?"}},
       {"a text", R"("pretraining": {"d_model": "64"}, "finetuning": [])", {"a.json", "d_model"}},
       {"a row's key", R"("pretraining": {"heads": 4}, "finetuning": [])", {"a.json", "decided by the rows"}},
       {"another task", none + R"({"task": "storys"}])", {"a.json", "did you mean \"stories\"?"}},
       {"no key of a finetuning", none + R"({"task": "stories", "epoch": 1}])", {"a.json", "epoch"}},
       {"a key of the pretraining",
        none + R"({"task": "rte"}, {"task": "stories", "config": {"d_model": 64}}])",
        {"a.json", "models.t5.finetuning[1]: config: \"d_model\" is that of the pretraining"}},
       {"a task twice", none + R"({"task": "rte"}, {"task": "rte", "epochs": 2}])", {"a.json", "twice"}},
       {"no ratio", none + R"(], "heads_ratio": 0)", {"a.json", "heads_ratio"}},
       {"no finetuning", R"("pretraining": {})", {"a.json", "finetuning"}}},
      [](const std::string& members) { WithT5(members); }, ErrorKind::kData);
}

}  // namespace scale_test
}  // namespace crosstalk
