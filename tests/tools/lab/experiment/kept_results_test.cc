// Results that outlive their runs: what damage to them costs, and which of their fields are compared.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "tests/tools/lab/experiment/reproduce_fixture.h"
#include "tools/lab/experiment/driver.h"

namespace crosstalk {
namespace reproduce_test {

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
      {with("values", Json::MakeObject({{"ln_ppl", 1e308}})), "values.ln_ppl: 1e+308 is more than 1e+100"},
      {with("joules", -1e308), "joules: -1e+308 is less than 0"},
      {with("data", "a\nb"), "data: has a control character"},
      {with("data", std::string(5000, 'a')), "data: is longer"},
      {with("configuration", Json::MakeObject({{"steps", 8}})), "pretraining.configuration"},
      {std::string(2 << 20, ' '), "result.json"}};
  for (const auto& [bytes, expected] : cases) {
    WriteBytes(file, bytes);
    ExpectExit(RunCommand(Table({"--seeds", "1", "--assemble"})), 3,
               {StrCat("1 cell cannot be read: t5-", kRows[1], ", seed 1; the table says why under Missing\n")});
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

// Whatever of a result affects it is compared, also what stands in no record of ours.
TEST_F(ReproduceTest, EveryFieldThatAffectsAResultIsCompared) {
  Succeeded(RunCommand(Table({"--seeds", "1", "--cell", "1"})));
  const Json good = ParseJson(ReadBytes(CellFolder(kRows[0], 1) + "/result.json"), "good");
  const CellRecord here = FromJson<CellRecord>(good, "here");
  EXPECT_EQ(RecordDifferences(here, here), std::vector<std::string>());
  const auto with = [](const Json& object, const char* key, const Json& value) { return Json(object).Set(key, value); };
  const Json &pretraining = good.At("pretraining"), &finetunings = good.At("finetunings");
  struct Case {
    bool finetuning;
    const char* key;
    Json value;
  };
  for (const auto& [finetuning, key, value] :
       {Case{false, "data", "other.txt"}, Case{false, "validation", "/other.txt"}, Case{false, "init_from", "/run"},
        Case{false, "eval_batches", 7}, Case{false, "steps", 9}, Case{false, "shards", 2}, Case{false, "accumulate", 3},
        Case{true, "task", "rte"}, Case{true, "task_data", "/tasks"}, Case{true, "init_from", "/run"},
        Case{true, "seed", 5}, Case{true, "accumulate", 2}}) {
    const Json& of = finetuning ? finetunings.At("stories") : pretraining;
    Json configuration = of.At("configuration");
    if (std::string(key) == "accumulate") {  // a name of earlier versions
      Json::Object members = configuration.AsObject();
      std::erase_if(members, [](const auto& member) { return member.first == "shards"; });
      configuration = Json(members);
    }
    const Json changed = with(of, "configuration", with(configuration, key, value));
    const Json forged = finetuning ? with(good, "finetunings", with(finetunings, "stories", changed))
                                   : with(good, "pretraining", changed);
    const std::vector<std::string> found = RecordDifferences(FromJson<CellRecord>(forged, "there"), here);
    ASSERT_GE(found.size(), 1u) << key;  // what a finetuning does not say is as in the pretraining
    const std::string named = std::string(key) == "accumulate" ? "shards" : key;
    EXPECT_TRUE(Contains(found[0], named + ": ")) << found[0];
  }
  const Json forged = with(good, "pretraining", with(pretraining, "data_fingerprint", "x"));
  EXPECT_EQ(RecordDifferences(FromJson<CellRecord>(forged, "there"), here).size(), 1u);
}

// What a result says goes into a table's Markdown as text.
TEST_F(ReproduceTest, AResultsTextIsNoMarkdown) {
  Succeeded(RunCommand(Table({"--seeds", "1", "--cell", "1"})));
  const std::string file = CellFolder(kRows[0], 1) + "/result.json";
  const Json good = ParseJson(ReadBytes(file), "good");
  const std::string evil = "<script>alert(1)</script> | [a](javascript:b) `c` *d* &lt; \\";
  Json pretraining = good.At("pretraining");
  pretraining.Set("data", evil);
  for (const char* key : {"versions", "processors"}) pretraining.Set(key, Json::MakeArray({evil}));
  WriteBytes(file, Json(good).Set("pretraining", pretraining).Dump());
  const CommandResult result = Succeeded(RunCommand(Table({"--seeds", "1", "--assemble"})));
  const std::string safe =
      "&lt;script&gt;alert(1)&lt;/script&gt; \\| \\[a\\](javascript:b) \\`c\\` \\*d\\* &amp;lt; \\\\";
  EXPECT_EQ(ReadBytes(dir_ / "my table/table.md"), result.output);
  size_t count = 0;
  for (size_t at = result.output.find(safe); at != std::string::npos; at = result.output.find(safe, at + 1)) ++count;
  EXPECT_EQ(count, 3u) << result.output;
  EXPECT_FALSE(Contains(result.output, "<script") ||
               Contains(ReadBytes(dir_ / "my table/report.html"), "<script>alert"));
  const CommandResult summary = Succeeded(RunCommand(Table({"--seeds", "1", "--summary"})));
  EXPECT_TRUE(Contains(summary.output, safe) && !Contains(summary.output, "<script")) << summary.output;
}

}  // namespace reproduce_test
}  // namespace crosstalk
