// Results that outlive their runs: what they hold, what damage costs, and cells that are recomputed beside them.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "tests/tools/reproduce/reproduce_fixture.h"

namespace crosstalk {
namespace reproduce_test {

TEST_F(ReproduceTest, WhatWasMeasuredOutlivesTheRuns) {
  Succeeded(RunCommand(Table()));
  const std::vector<std::string> whole = TableFiles();
  // Written at a cell's end, and by a call that sees a finished cell without it: the same bytes.
  const std::string result = ReadBytes(CellFolder(kRows[1], 2) + "/result.json");
  EXPECT_LT(result.size(), 12000u);
  EXPECT_FALSE(Contains(result, dir_ / "")) << result;
  RemoveFromCells({"result.json"});
  Succeeded(RunCommand(Table({"--assemble"})));
  EXPECT_EQ(ReadBytes(CellFolder(kRows[1], 2) + "/result.json"), result);
  EXPECT_EQ(TableFiles(), whole);

  RemoveRuns();
  Succeeded(RunCommand(Table({"--assemble"})));
  EXPECT_EQ(TableFiles(), whole);
  // Nothing is trained, neither by all nor by one.
  const std::string cells = Snapshot(dir_ / "my table/cells");
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--cell", "4"}}) {
    ExpectExit(RunCommand(Table(more)), 0, {", 0 to run"});
  }
  EXPECT_EQ(Snapshot(dir_ / "my table/cells"), cells);
  EXPECT_EQ(TableFiles(), whole);

  // Of another scale, and on other text: refused, and not counted.
  WriteScale(9);
  ExpectExit(RunCommand(Table()), 2, {"another scale or configuration: steps: 9 here, 8 there"});
  Succeeded(RunCommand(Table({"--assemble"})));
  EXPECT_TRUE(Contains(ReasonOfMissing(0), "steps: 9 here, 8 there")) << ReasonOfMissing(0);
  WriteScale(8, R"("steps": 3})");
  ExpectExit(RunCommand(Table()), 2);
  Succeeded(RunCommand(Table({"--assemble"})));
  EXPECT_TRUE(Contains(ReasonOfMissing(0), "stories: not counted: ")) << ReasonOfMissing(0);
  WriteScale(8);
  ExpectOtherTextIsRefused();
}

TEST_F(ReproduceTest, ADamagedResultCostsItsCellAlone) {
  Succeeded(RunCommand(Table({"--seeds", "1"})));
  RemoveRuns();
  const std::string file = CellFolder(kRows[1], 1) + "/result.json";
  const std::string good = ReadBytes(file);
  const auto with = [&](const std::string& key, const Json& value) {
    Json json = ParseJson(good, "result.json");
    json.Set("pretraining", Json(json.At("pretraining")).Set(key, value));
    return json.Dump();
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {good.substr(0, good.size() / 2), "byte "},
      {"[]", "result.json: "},
      {R"({"format": 2})", "format"},
      {Json(ParseJson(good, "")).Set("more", 1).Dump(), "more: is not a key"},
      {with("values", Json::MakeObject({{"ln_ppl", "1"}})), "ln_ppl: must be a number"},
      {with("values", Json::MakeObject()), "values: has no ln_ppl"},
      {with("parameters", -1), "parameters"},
      {with("curve", Json::MakeArray({1.0})), "curve: is not as long"},
      {with("curve_steps", Json::MakeArray({8.0, 4.0})), "curve_steps: descends"},
      {with("values", Json::MakeObject({{"ln_ppl", 1e308}})), "ln_ppl: is not between -1e+100 and 1e+100"},
      {with("joules", -1e308), "joules: is not between"},
      {with("data", "a\nb"), "data: has a control character"},
      {with("data", std::string(5000, 'a')), "data: is longer"},
      {with("configuration", Json::MakeObject({{"steps", 8}})), "configuration of pretraining"},
      {std::string(2 << 20, ' '), "result.json"}};
  for (const auto& [bytes, expected] : cases) {
    WriteBytes(file, bytes);
    Succeeded(RunCommand(Table({"--seeds", "1", "--assemble"})));
    ASSERT_EQ(Result().At("missing").AsArray().size(), 1u) << expected;
    EXPECT_TRUE(Contains(ReasonOfMissing(0), "result.json") && Contains(ReasonOfMissing(0), expected))
        << ReasonOfMissing(0);
    EXPECT_EQ(Result().At("rows").AsArray()[0].At("seeds").AsInt(), 1);
  }
  // Training says so too, and changes nothing.
  const CommandResult run =
      ExpectExit(RunCommand(Table({"--seeds", "1"})), 1, {"without this file the cell's runs count"});
  // One of another cell is none of this.
  WriteBytes(file, ReadBytes(CellFolder(kRows[0], 1) + "/result.json"));
  Succeeded(RunCommand(Table({"--seeds", "1", "--assemble"})));
  EXPECT_TRUE(Contains(ReasonOfMissing(0), "it is a run of another configuration")) << ReasonOfMissing(0);
}

TEST_F(ReproduceTest, AResultThatLacksAFinetuningIsPretrainedAgain) {
  const std::vector<std::string> without = {"reproduce", "--table",         "10",      "--scale", dir_ / "tiny.json",
                                            "--out",     dir_ / "my table", "--seeds", "1",       "--threads",
                                            "1"};
  Succeeded(RunCommand(Table({"--seeds", "1", "--cells", dir_ / "whole"})));
  const Json whole = Result();
  Succeeded(RunCommand(without));
  RemoveRuns();
  Succeeded(RunCommand(Table({"--seeds", "1", "--assemble"})));
  EXPECT_TRUE(Contains(ReasonOfMissing(0), "stories: not finetuned on, and the weights to begin with are not there"))
      << ReasonOfMissing(0);
  EXPECT_EQ(Result().At("rows").AsArray()[0].At("measures").At("ln_ppl").At("seeds").AsInt(), 1);
  ExpectExit(RunCommand(Table({"--seeds", "1"})), 0, {"its weights are not there: pretrained again"});
  EXPECT_EQ(Result().At("rows").AsArray()[0].At("measures"), whole.At("rows").AsArray()[0].At("measures"));
  RemoveRuns();
  Succeeded(RunCommand(Table({"--seeds", "1", "--assemble"})));
  EXPECT_EQ(Result().At("rows").AsArray()[0].At("measures"), whole.At("rows").AsArray()[0].At("measures"));
}

TEST_F(ReproduceTest, CellsThatAreComputedAnewAreTheSameToTheBit) {
  ExpectExit(RunCommand(Table({"--verify", "1"})), 2, {"holds no finished cell"});
  ExpectExit(RunCommand(Table({"--seeds", "1"})), 0, {});
  RemoveRuns();
  const std::vector<std::string> verify = {"--seeds", "1", "--verify", "2", "--json"};
  const CommandResult result = RunCommand(Table(verify));
  ExpectExit(result, 0, {"the same to the bit"});
  const Json verified = ParseJson(result.output, "verified").At("verified");
  ASSERT_EQ(verified.AsArray().size(), 2u);
  for (const Json& one : verified.AsArray()) EXPECT_EQ(one.At("model_sha256").AsString().size(), 64u);
  // All cells are drawn where there are no more, and one whose result was touched is found out.
  const std::string file = CellFolder(kRows[1], 1) + "/result.json";
  std::string record = ReadBytes(file);
  const size_t digest = record.find("model_sha256\": \"") + 16;
  record[digest] = record[digest] == '0' ? '1' : '0';
  WriteBytes(file, record);
  ExpectExit(RunCommand(Table({"--seeds", "1", "--verify", "9"})), 1,
             {"only 3 cells are finished", kRows[1], "model_sha256: " + record.substr(digest, 64) + " there, "});
  // One that cannot be read costs itself alone.
  WriteBytes(file, "{}");
  ExpectExit(RunCommand(Table({"--seeds", "1", "--verify", "9"})), 0,
             {"not verified: " + file, "only 2 cells are finished"});
  // What is there is never overwritten by what is recomputed.
  const std::string cells = dir_ / "my table/verification";
  fs::remove_all(cells);
  fs::rename(dir_ / "my table/cells", cells);
  ExpectExit(RunCommand(Table({"--seeds", "1", "--verify", "9", "--cells", cells})), 2, {"choose another --out"});
  EXPECT_TRUE(fs::exists(cells + "/t5-" + kRows[0] + "/seed-1/result.json"));
}

// What a result says goes into a table's Markdown as text.
TEST_F(ReproduceTest, AResultsTextIsNoMarkdown) {
  Succeeded(RunCommand(Table({"--seeds", "1", "--cell", "1"})));
  const std::string file = CellFolder(kRows[0], 1) + "/result.json";
  const Json good = ParseJson(ReadBytes(file), "good");
  const std::string evil = "<script>alert(1)</script> | [a](javascript:b) `c` *d* &lt; \\";
  Json pretraining = good.At("pretraining");
  for (const char* key : {"data", "simd_bits"}) pretraining.Set(key, evil);
  for (const char* key : {"versions", "processors"}) pretraining.Set(key, Json::MakeArray({evil}));
  WriteBytes(file, Json(good).Set("pretraining", pretraining).Dump());
  const CommandResult result = Succeeded(RunCommand(Table({"--seeds", "1", "--assemble"})));
  const std::string safe =
      "&lt;script&gt;alert(1)&lt;/script&gt; \\| \\[a\\](javascript:b) \\`c\\` \\*d\\* &amp;lt; \\\\";
  EXPECT_EQ(ReadBytes(dir_ / "my table/table.md"), result.output);
  size_t count = 0;
  for (size_t at = result.output.find(safe); at != std::string::npos; at = result.output.find(safe, at + 1)) ++count;
  EXPECT_EQ(count, 4u) << result.output;
  EXPECT_FALSE(Contains(result.output, "<script") ||
               Contains(ReadBytes(dir_ / "my table/report.html"), "<script>alert"));
  const CommandResult summary = Succeeded(RunCommand(Table({"--seeds", "1", "--summary"})));
  EXPECT_TRUE(Contains(summary.output, safe) && !Contains(summary.output, "<script")) << summary.output;
}

}  // namespace reproduce_test
}  // namespace crosstalk
