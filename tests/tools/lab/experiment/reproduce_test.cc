// `crosstalk reproduce`: the numbers of its tables. tests/sessions/reproduce.session has what a user sees.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/json.h"
#include "tests/tools/lab/experiment/reproduce_fixture.h"

namespace crosstalk {
namespace reproduce_test {

// Every element of an XML text is closed, in order; a "<" that begins none is an element that is not.
std::string WhatIsNotClosed(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t begin = xml.find('<'); begin != std::string::npos; begin = xml.find('<', begin + 1)) {
    const std::string tag = xml.substr(begin + 1, xml.find('>', begin) - begin - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag.starts_with("/")) {
      if (open.empty() || "/" + open.back() != name) return tag;
      open.pop_back();
    } else if (!tag.ends_with("/")) {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : open.back();
}

TEST_F(ReproduceTest, ACellThatAnotherProcessComputesIsSkipped) {
  const RunLock lock(CellFolder(kRows[0], 1));
  ExpectExit(
      RunCommand(Table({"--seeds", "1"})), 0,
      {"skipped: t5-multihead-24x32, seed 1: another process computes it", "2 of 3 cells finished, 1 running; about "});
  const CommandResult status = Succeeded(RunCommand(Table({"--seeds", "1", "--status", "--json"})));
  const Json json = ParseJson(status.output, "status");
  EXPECT_EQ(json.At("finished").AsInt(), 2);
  const Json& running = json.At("cells").AsArray()[0];
  EXPECT_EQ(running.At("state").AsString(), "running");
  EXPECT_TRUE(Contains(running.At("holder").AsString(), StrCat(", process ", getpid())));
  EXPECT_EQ(running.At("step").AsInt(), 0);
  EXPECT_EQ(Result().At("rows").AsArray()[0].At("seeds").AsInt(), 0);
  EXPECT_EQ(Result().At("rows").AsArray()[1].At("seeds").AsInt(), 1);
}

// Talking heads multiply more, and no noise makes them quicker.
TEST_F(ReproduceTest, TimesAreMultiplicationsAtOneRateInFewDigits) {
  const Json json = ParseJson(RunCommand(Table({"--dry-run", "--json", "--seeds", "1"})).output, "output");
  const double rate = json.At("multiplications_per_second").At("t5").AsDouble();
  EXPECT_GT(rate, 0);
  int64_t before = 0;
  for (const size_t row : {0, 2}) {
    const Json& one = json.At("rows").AsArray()[row];
    const int64_t multiplications = one.At("step_multiplications").AsInt();
    EXPECT_GT(multiplications, before);
    before = multiplications;
    const double seconds = static_cast<double>(multiplications) / rate;
    EXPECT_NEAR(one.At("step_seconds").AsDouble(), seconds, 1e-9 * seconds);
    EXPECT_GT(one.At("seconds").AsDouble(), 8 * seconds);  // with evaluations and a finetuning
  }
  const CommandResult result = RunCommand(Table({"--dry-run"}));
  const size_t begin = result.output.find(": about ") + 8;
  std::string digits = result.output.substr(begin, result.output.find_first_not_of("0123456789", begin) - begin);
  while (digits.ends_with("0")) digits.pop_back();
  EXPECT_TRUE(digits.size() == 1 || digits.size() == 2) << result.output;
}

// A table of this project: nothing of the paper's stands in it, and its figure is a curve of each series over the
// heads.
TEST_F(ReproduceTest, TheTableOfHeadsIsDrawnOverTheirNumber) {
  WriteBytes(dir_ / "text.txt", LinesOfText());
  WriteBytes(dir_ / "letters.json", StrCat(R"({"name": "letters", "about": "for tests.", "seeds": 2, "models": {"lm": {
      "pretraining": {"d_model": 64, "d_ff": 16, "layers": 1, "tokenizer": "bytes", "input_length": 8, "batch": 2, "steps": 2,
                      "data": ")",
                                           dir_ / "text.txt", R"(", "validation": ")", dir_ / "text.txt",
                                           R"(", "eval_batches": 1, "eval_every": 1}, "finetuning": []}}})"));
  const std::vector<std::string> table = {"reproduce",           "--table", "heads",          "--scale",
                                          dir_ / "letters.json", "--out",   dir_ / "my table"};
  const CommandResult result = ExpectExit(RunCommand(table), 0, {"70 cells, 0 finished"});
  EXPECT_TRUE(Contains(result.output, "| talking-32x4-relative | 16 × 4 | ")) << result.output;
  for (const char* of_paper : {"paper", "Paper"}) EXPECT_FALSE(Contains(result.output, of_paper)) << of_paper;
  // After two steps no model is there.
  EXPECT_TRUE(Result().At("rows").AsArray()[0].At("measures").At("steps_to_2.3").At("mean").is_null());
  const std::string figure = ReadBytes(dir_ / "my table/figure.svg");
  EXPECT_EQ(WhatIsNotClosed(figure), "");
  for (const char* series : {"multi-head, relative bias", "talking-heads, relative bias",
                             "multi-head, learned positions", "talking-heads, learned positions",
                             "Multi-Token Attention, relative bias", ">32</text>", "line: mean, band: range"}) {
    EXPECT_TRUE(Contains(figure, series)) << series;
  }
  const std::string curves = ReadBytes(dir_ / "my table/curves.csv");
  EXPECT_TRUE(curves.starts_with("row,seed,step,ln_ppl\nmultihead-4x32-relative,1,1,")) << curves.substr(0, 200);
  EXPECT_EQ(std::count(curves.begin(), curves.end(), '\n'), 1 + 2 * 70);
  // From 2.9 at step 1 to 1.7 at step 2 a curve is at 2.3 in the middle.
  const std::string kept = dir_ / "my table/cells/lm-multihead-4x32-relative/seed-2/result.json";
  Json record = ParseJson(ReadBytes(kept), "result.json");
  Json pretraining = record.At("pretraining");
  record.Set("pretraining", pretraining.Set("curve", Json::MakeArray({2.9, 1.7})));
  WriteBytes(kept, record.Dump());
  Succeeded(RunCommand(Joined(table, {"--assemble"})));
  const Json steps = Result().At("rows").AsArray()[0].At("measures").At("steps_to_2.3");
  EXPECT_EQ(steps.At("seeds").AsInt(), 1);
  EXPECT_NEAR(steps.At("by_seed").At("2").AsDouble(), 1.5, 1e-12);
  const CommandResult summary = Succeeded(RunCommand(Joined(table, {"--summary"})));
  for (const char* text :
       {"## Scope of reproducibility", "## Methodology", "- 70 runs of 35 rows; their steps took about ", "## Results",
        "## What was easy", "## What was difficult",
        "- With learned positions, multi-head attention gets worse from 4 to 32 heads (nats a letter): **"}) {
    EXPECT_TRUE(Contains(summary.output, text)) << text << "\n" << summary.output;
  }
  // Other text replaces both of the scale's, and is told from it.
  WriteBytes(dir_ / "other.txt", LinesOfText() + "More.");
  ExpectExit(RunCommand(Joined(table, {"--data", dir_ / "other.txt"})), 2, {"was trained on other text"});
  const CommandResult list = RunCommand({"reproduce", "--table", "heads", "--list"});
  EXPECT_TRUE(Contains(list.output, "'--scale' 'small'")) << list.output.substr(0, 400);
}

// Two tables have rows that differ in other options than attention's: each run has its row's, and the figure is over
// the learning rate.
TEST_F(ReproduceTest, RowsMaySetAnyOption) {
  WriteBytes(dir_ / "text.txt", LinesOfText());
  WriteBytes(dir_ / "letters.json", StrCat(R"({"name": "letters", "about": "for tests.", "seeds": 1, "models": {"lm": {
      "pretraining": {"d_model": 32, "d_ff": 16, "layers": 4, "tokenizer": "bytes", "input_length": 8, "batch": 2, "steps": 2,
                      "data": ")",
                                           dir_ / "text.txt", R"(", "validation": ")", dir_ / "text.txt",
                                           R"(", "eval_batches": 1, "eval_every": 1}, "finetuning": []}}})"));
  const auto run = [&](const std::string& table) {
    const CommandResult result = Succeeded(RunCommand({"reproduce", "--table", table, "--scale", dir_ / "letters.json",
                                                       "--out", dir_ / "my table", "--threads", "1"}));
    EXPECT_TRUE(Contains(result.output, "## Claims")) << result.output;
    return result.output;
  };
  const auto config = [&](const std::string& row) {
    const std::string path = dir_ / ("my table/cells/lm-" + row + "/seed-1/pretraining/run.json");
    return ParseJson(ReadBytes(path), path).At("configuration");
  };
  run("rates");
  EXPECT_EQ(config("identity-norm-at-0.008").At("learning_rate"), Json(0.008));
  EXPECT_EQ(config("identity-norm-at-0.008").At("final_learning_rate"), Json(0.0004));
  EXPECT_EQ(config("identity-norm-at-0.008").At("mixing_init"), Json("identity"));
  EXPECT_EQ(config("random-plain-at-0.0005").At("learning_rate"), Json(0.0005));
  const std::string figure = ReadBytes(dir_ / "my table/figure.svg");
  for (const char* text : {"learning rate", "talking-heads, identity, norm"})
    EXPECT_TRUE(Contains(figure, text)) << text;
  EXPECT_EQ(Result().At("rows").AsArray().size(), 18u);

  fs::remove_all(dir_ / "my table");
  const std::string layers = run("layers");
  EXPECT_EQ(config("talking-in-last").At("layer_kinds").AsArray().size(), 4u);
  // A layer's parameters are those of the layers that talk: two projections of 4 heads more.
  const Json rows = Result().At("rows");
  ASSERT_EQ(rows.AsArray().size(), 7u);
  EXPECT_EQ(rows.AsArray()[4].At("layer_parameters").AsInt() - rows.AsArray()[0].At("layer_parameters").AsInt(), 32);
  EXPECT_EQ(rows.AsArray()[5].At("model_parameters").AsInt() - rows.AsArray()[0].At("model_parameters").AsInt(), 64);
}

}  // namespace reproduce_test
}  // namespace crosstalk
