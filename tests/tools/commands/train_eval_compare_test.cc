// What a run leaves for its user: run.json, metrics.jsonl, `eval` and the table of `compare`.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"
#include "tools/cli/statistics.h"

namespace crosstalk {
namespace train_eval_compare_test {

using testing::Contains;

std::vector<Json> Lines(const std::string& path) {
  std::vector<Json> lines;
  std::istringstream in(ReadBytes(path));
  for (std::string line; std::getline(in, line);) lines.push_back(ParseJson(line, path));
  return lines;
}

TEST(TrainTest, RunJsonSaysWhatTheRunDependsOn) {
  const TempDir dir;
  Succeeded(RunCommand(TinyTrain({"--out", dir / "run", "--seed", "5"})));
  const Json run = ParseJson(ReadBytes(dir / "run/run.json"), "run.json");
  EXPECT_EQ(run.At("seed").AsInt(), 5);
  EXPECT_EQ(run.At("threads").AsInt(), 1);
  EXPECT_EQ(run.At("implementation").AsString(), "fused");
  EXPECT_FALSE(run.At("simd_target").AsString().empty());
  EXPECT_FALSE(run.At("version").AsString().empty());
  EXPECT_TRUE(run.At("environment").is_object());
  EXPECT_EQ(run.At("configuration").At("steps").AsInt(), 8);
  EXPECT_EQ(run.At("sessions").AsArray().size(), 1u);
}

TEST(TrainTest, MetricsHaveALineForEachStepAndEachMeasure) {
  const TempDir dir;
  Succeeded(RunCommand(TinyTrain({"--out", dir / "run"})));
  int64_t steps = 0;
  std::vector<int64_t> measured;
  for (const Json& line : Lines(dir / "run/metrics.jsonl")) {
    if (line.At("event").AsString() == "train") {
      EXPECT_EQ(line.At("step").AsInt(), ++steps);
      for (const char* key : {"loss", "ln_ppl", "learning_rate", "gradient_norm", "tokens_per_second"}) {
        EXPECT_TRUE(std::isfinite(line.At(key).AsDouble())) << key;
      }
    } else {
      EXPECT_EQ(line.At("event").AsString(), "eval");
      EXPECT_EQ(line.At("step").AsInt(), steps);
      EXPECT_GT(line.At("tokens").AsInt(), 0);
      EXPECT_GT(line.At("ln_ppl").AsDouble(), line.At("loss_lower_bound").AsDouble());
      measured.push_back(steps);
    }
  }
  EXPECT_EQ(steps, 8);
  EXPECT_EQ(measured, (std::vector<int64_t>{3, 6, 8}));
}

TEST(TrainTest, LossFallsOnTheBuiltInCorpus) {
  const TempDir dir;
  Succeeded(RunCommand(TinyTrain(
      {"--out", dir / "run", "--steps", "120", "--batch", "16", "--eval-every", "0", "--eval-batches", "4"})));
  const std::vector<Json> lines = Lines(dir / "run/metrics.jsonl");
  // Bytes of English: uniform guessing is ln 359 = 5.88, letter frequencies alone give about 3.
  EXPECT_GT(lines.front().At("ln_ppl").AsDouble(), 5.0);
  EXPECT_LT(lines.back().At("ln_ppl").AsDouble(), 3.5);
}

// The end has a measure and a checkpoint of its own: one just before it would only push out an older one.
TEST(TrainTest, NothingIsSavedJustBeforeTheEnd) {
  const TempDir dir;
  Succeeded(RunCommand(TinyTrain({"--out", dir / "run", "--steps", "10"})));  // every 3: 9 is one before
  EXPECT_TRUE(std::filesystem::exists(dir / "run/checkpoints/step-00000006"));
  EXPECT_FALSE(std::filesystem::exists(dir / "run/checkpoints/step-00000009"));
  EXPECT_TRUE(std::filesystem::exists(dir / "run/checkpoints/step-00000010"));
}

TEST(TrainTest, WhatNextIsACommandThatWorksAnywhere) {
  const TempDir dir;
  const CommandResult result = RunCommand(TinyTrain({"--out", dir / "run", "--steps", "2"}));
  EXPECT_FALSE(Contains(result.errors, "make ")) << result.errors;
  EXPECT_TRUE(Contains(result.errors, StrCat("crosstalk eval --run '", dir / "run", "'"))) << result.errors;
}

TEST(EvalTest, TheBestCheckpointIsKeptAndFound) {
  const TempDir dir;
  // Steps so large that the loss rises: to hundreds at step 3, fourfold at step 6.
  Succeeded(RunCommand(TinyTrain(
      {"--out", dir / "run", "--learning-rate", "3", "--warmup", "1", "--decay", "0", "--steps", "6", "--keep", "1"})));
  Json best = Json::MakeObject({{"ln_ppl", 1e9}, {"step", 0}});
  for (const Json& line : Lines(dir / "run/metrics.jsonl")) {
    const bool better =
        line.At("event").AsString() == "eval" && line.At("ln_ppl").AsDouble() < best.At("ln_ppl").AsDouble();
    if (better) best = line;
  }
  ASSERT_LT(best.At("step").AsInt(), 6) << "choose options with which the last measure is not the best";
  const CommandResult result = Succeeded(RunCommand({"eval", "--run", dir / "run", "--checkpoint", "best", "--json"}));
  EXPECT_EQ(ParseJson(result.output, "output").At("step"), best.At("step"));
  EXPECT_EQ(ParseJson(result.output, "output").At("ln_ppl"), best.At("ln_ppl"));
}

TEST(EvalTest, MeasuresOnOtherText) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "Line " + std::to_string(i) + " of a text that is long enough.\n\n";
  WriteBytes(dir / "text.txt", text);
  Succeeded(RunCommand(TinyTrain({"--out", dir / "run"})));
  const CommandResult result =
      Succeeded(RunCommand({"eval", "--run", dir / "run", "--data", dir / "text.txt", "--json"}));
  const Json json = ParseJson(result.output, "output");
  EXPECT_TRUE(json.At("loss_lower_bound").is_null());
  // All of it, although training looks at one batch of 4: chunks of 17 bytes.
  EXPECT_EQ(json.At("examples").AsInt(), static_cast<int64_t>(text.size()) / 17);
  const CommandResult some =
      RunCommand({"eval", "--run", dir / "run", "--data", dir / "text.txt", "--eval-batches", "2", "--json"});
  EXPECT_EQ(ParseJson(some.output, "output").At("examples").AsInt(), 8);
  EXPECT_EQ(RunCommand({"eval", "--run", dir / "run", "--data", dir / "missing.txt"}).exit_code, 3);
  EXPECT_EQ(RunCommand({"eval", "--run", dir / "missing"}).exit_code, 3);
  EXPECT_EQ(RunCommand({"eval", "--run", dir / "run", "--checkpoint", dir / "run"}).exit_code, 3);
}

// Its runs begin alike and end at the same step, so that it takes no option that continues one.
TEST(CompareTest, OffersNoOptionThatGoesOnWithAnotherRun) {
  const TempDir dir;
  const std::string help = RunCommand({"compare", "--help=all"}).output;
  EXPECT_TRUE(Contains(help, "but --init-from, --continued-at, --seed are taken")) << help;
  for (const char* option : {"--resume", "is resumed"}) EXPECT_FALSE(Contains(help, option)) << option;
  ExpectExit(RunCommand({"compare", "--init-from", "x", "--out", dir / "c"}), 2, {"--init-from"});
  ExpectExit(RunCommand({"compare", "--continued-at", "4", "--steps", "8", "--out", dir / "c"}), 2, {"--continued-at"});
}

TEST(CompareTest, EndsWithATableAndTakesUpWhereItStopped) {
  const TempDir dir;
  std::vector<std::string> command = TinyTrain({"--out", dir / "c", "--seeds", "1,2", "--kinds", "multihead,talking"});
  command[0] = "compare";
  const CommandResult first = Succeeded(RunCommand(command));
  EXPECT_TRUE(Contains(first.output, "| multihead |") && Contains(first.output, "| talking |")) << first.output;
  EXPECT_TRUE(Contains(first.output, "±")) << first.output;
  EXPECT_EQ(ReadBytes(dir / "c/table.md"), first.output);
  const Json json = ParseJson(ReadBytes(dir / "c/table.json"), "table.json");
  ASSERT_EQ(json.At("rows").AsArray().size(), 2u);
  const Json& talking = json.At("rows").AsArray()[1];
  EXPECT_EQ(talking.At("seeds").AsInt(), 2);
  // One layer, d_model 16 and 2 heads: 4 · 16 · 16 for multi-head, and two 2 × 2 mixings for talking heads.
  EXPECT_EQ(json.At("rows").AsArray()[0].At("layer_parameters").AsInt(), 1024);
  EXPECT_EQ(talking.At("layer_parameters").AsInt(), 1032);

  // A finished run is not trained again, one that is gone is: the table is the same to the step times' digits.
  std::filesystem::remove_all(dir / "c/cells/attention-talking/seed-2");
  const std::string kept = ReadBytes(dir / "c/cells/attention-multihead/seed-1/pretraining/metrics.jsonl");
  const std::string status = Succeeded(RunCommand(Joined(command, {"--status"}))).output;
  EXPECT_TRUE(Contains(status, "3 of 4 cells finished, 1 to run")) << status;
  const std::string plan = Succeeded(RunCommand(Joined(command, {"--dry-run"}))).output;
  EXPECT_TRUE(Contains(plan, "attention-talking")) << plan;
  Succeeded(RunCommand(command));
  EXPECT_EQ(ReadBytes(dir / "c/cells/attention-multihead/seed-1/pretraining/metrics.jsonl"), kept);
  const Json again_json = ParseJson(ReadBytes(dir / "c/table.json"), "table.json");
  const Json& again = again_json.At("rows").AsArray()[1].At("measures").At("ln_ppl");
  EXPECT_EQ(again, talking.At("measures").At("ln_ppl"));
  EXPECT_NE(again.At("deviation").AsDouble(), 0);
  // As a report, it is the page of the table.
  Succeeded(RunCommand({"report", dir / "c", "--out", dir / "page.html"}));
  EXPECT_EQ(ReadBytes(dir / "page.html"), ReadBytes(dir / "c/report.html"));
}

// The values of any field, and what differs between them over the same seeds.
TEST(CompareTest, VariesAnyFieldAndPairsSeeds) {
  const TempDir dir;
  std::vector<std::string> command =
      TinyTrain({"--out", dir / "c", "--seeds", "1,2,3", "--vary", "d-ff=24,32", "--attention", "multihead"});
  command.erase(std::find(command.begin(), command.end(), "--d-ff"),
                std::find(command.begin(), command.end(), "--d-ff") + 2);
  command[0] = "compare";
  const CommandResult result = Succeeded(RunCommand(command));
  EXPECT_TRUE(Contains(result.output, "| d_ff | heads here | ln(PPL) |")) << result.output;
  EXPECT_EQ(ReadBytes(dir / "c/table.md"), result.output);
  const Json json = ParseJson(ReadBytes(dir / "c/table.json"), "table.json");
  ASSERT_EQ(json.At("rows").AsArray().size(), 2u);
  ASSERT_EQ(json.At("differences").AsArray().size(), 1u);
  const Json& pair = json.At("differences").AsArray()[0];
  EXPECT_EQ(pair.At("of"), Json("32"));
  EXPECT_EQ(pair.At("less"), Json("24"));
  const auto score = [&json](size_t setting, size_t seed) {
    const Json& values = json.At("rows").AsArray()[setting].At("measures").At("ln_ppl").At("by_seed");
    return values.At(StrCat(seed)).AsDouble();
  };
  std::vector<BySeed> settings(2);
  BySeed differences;
  for (size_t seed = 1; seed <= 3; ++seed) {
    for (const size_t setting : {0, 1}) settings[setting][seed] = score(setting, seed);
    differences[seed] = score(1, seed) - score(0, seed);
    EXPECT_EQ(pair.At("by_seed").At(StrCat(seed)).AsDouble(), differences[seed]);
  }
  const std::optional<Interval> interval = IntervalOfDifferences(differences, ScatterOf(settings), 0.95);
  ASSERT_TRUE(interval);
  EXPECT_EQ(pair.At("interval_95"), Json::MakeArray({interval->low, interval->high}));
  // Each run is the one that train makes.
  Succeeded(RunCommand(TinyTrain({"--out", dir / "run", "--d-ff", "32", "--attention", "multihead", "--seed", "2"})));
  EXPECT_TRUE(ReadBytes(dir / "run/model.safetensors") ==
              ReadBytes(dir / "c/cells/d_ff-32/seed-2/pretraining/model.safetensors"));
}

// Also fields that are a path, or say where a run begins, which no option of compare gives.
TEST(CompareTest, VariesPathsAndOrigins) {
  const TempDir dir;
  Succeeded(RunCommand(TinyTrain({"--out", dir / "a"})));
  Succeeded(RunCommand(TinyTrain({"--out", dir / "b", "--seed", "5"})));
  std::vector<std::string> command =
      TinyTrain({"--out", dir / "c", "--seeds", "1", "--vary", StrCat("init_from=", dir / "a", ",", dir / "b")});
  command[0] = "compare";
  const CommandResult result = Succeeded(RunCommand(command));
  EXPECT_TRUE(Contains(result.output, StrCat("| ", dir / "b", " |"))) << result.output;
  std::vector<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(dir / "c/cells")) {
    if (entry.is_directory()) folders.push_back(entry.path().filename().string());
  }
  ASSERT_EQ(folders.size(), 2u);
  for (const std::string& name : folders) EXPECT_TRUE(name.starts_with("init_from-%2F")) << name;
}

// Rows on different texts count each, and are taken up again.
TEST(CompareTest, VariesTheBuiltInCorpus) {
  const TempDir dir;
  std::vector<std::string> command = TinyTrain({"--model", "lm", "--out", dir / "c", "--seeds", "1", "--vary",
                                                "corpus=copying,retrieval", "--input-length", "64"});
  command[0] = "compare";
  Succeeded(RunCommand(command));
  Succeeded(RunCommand(command));
  const Json json = ParseJson(ReadBytes(dir / "c/table.json"), "table.json");
  EXPECT_TRUE(json.At("missing").AsArray().empty());
  for (const Json& row : json.At("rows").AsArray()) EXPECT_EQ(row.At("seeds").AsInt(), 1);
  EXPECT_EQ(json.At("data").AsArray().size(), 2u);
}

TEST(CompareTest, WhatCannotBeVariedIsRefusedBeforeTheFirstRun) {
  const TempDir dir;
  for (const auto& [words, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--vary", "d_modle=2,4"}, "did you mean \"d_model\"?"},
           {{"--vary", "layers"}, "--vary: \"layers\" has no ="},
           {{"--vary", "layers=1,x"}, "--layers: \"x\" is not an integer"},
           {{"--vary", "layers=1,0"}, "--layers: 0 is"},
           {{"--vary", "dropout=0,0.0"}, "--vary: 0.0 stands there twice"},
           {{"--vary", "tensorboard=true,1"}, "--tensorboard: \"1\" is neither true nor false"},
           {{"--vary", "seed=1,2"}, "--vary: seeds are given by --seeds"},
           {{"--vary", "layers=1,2", "--layers", "3"}, "--layers: --vary gives its values"},
           {{"--vary", "layers=1,2", "--kinds", "talking"}, "--kinds: --vary compares something else"},
           {{"--attention", "talking"}, "--attention: the kinds of --kinds differ in it"}}) {
    ExpectExit(RunCommand(Joined({"compare", "--out", dir / "c"}, words)), 2, {message});
  }
  EXPECT_FALSE(std::filesystem::exists(dir / "c"));
}

}  // namespace train_eval_compare_test
}  // namespace crosstalk
