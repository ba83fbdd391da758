// `crosstalk reproduce`: table 10, of three rows, at a scale of a moment, as a user runs it.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/json.h"
#include "tests/tools/lab/experiment/reproduce_fixture.h"

namespace crosstalk {
namespace reproduce_test {

const std::vector<std::string> kFiles = {"table.md",   "table.csv",   "curves.csv",
                                         "table.json", "report.html", "figure.svg"};

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

TEST_F(ReproduceTest, ATableStandsBesideThePapers) {
  const CommandResult result = ExpectExit(RunCommand(Table()), 0, {"6 cells, 0 finished, 6 to run: about "});
  EXPECT_EQ(result.output, ReadBytes(dir_ / "my table/table.md"));
  EXPECT_TRUE(Contains(result.output, "± ")) << result.output;
  EXPECT_TRUE(Contains(result.output, "1.989 (0.009)")) << result.output;  // as the paper prints it
  const Json json = Result();
  ASSERT_EQ(json.At("rows").AsArray().size(), 3u);
  for (size_t i = 0; i < kRows.size(); ++i) {
    const Json& row = json.At("rows").AsArray()[i];
    EXPECT_EQ(row.At("row").AsString(), kRows[i]);
    const Json& ours = row.At("measures").At("ln_ppl");
    EXPECT_EQ(ours.At("seeds").AsInt(), 2);
    double sum = 0;
    for (int seed = 1; seed <= 2; ++seed) {
      sum += ours.At("by_seed").At(StrCat(seed)).AsDouble();
    }
    EXPECT_NEAR(ours.At("mean").AsDouble(), sum / 2, 1e-12);
    EXPECT_EQ(row.At("measures").At("stories").At("seeds").AsInt(), 2);
    EXPECT_EQ(row.At("measures").At("squad").At("seeds").AsInt(), 0);
    EXPECT_FALSE(row.At("measures").At("squad").At("paper").is_null());
  }
  // Two claims on ln(PPL) and tasks: of squad and mnli-m there is nothing.
  for (const Json& claim : json.At("claims").AsArray()) {
    EXPECT_EQ(claim.At("verdict").AsString() == "not measured", claim.At("measure").AsString() != "ln_ppl");
  }
  EXPECT_TRUE(json.At("missing").AsArray().empty()) << json.At("missing").Dump();
  EXPECT_TRUE(Contains(ReadBytes(dir_ / "my table/report.html"), "dynamic-encoder-24x32"));

  EXPECT_EQ(WhatIsNotClosed(ReadBytes(dir_ / "my table/figure.svg")), "");

  // The same command finds all of it done, and --assemble needs no more than the cells: the same bytes.
  const std::string cells = Snapshot(dir_ / "my table/cells");
  std::vector<std::string> before;
  for (const std::string& file : kFiles) before.push_back(ReadBytes(dir_ / ("my table/" + file)));
  Succeeded(RunCommand(Table()));
  for (const std::string& file : kFiles) fs::remove(dir_ / ("my table/" + file));
  Succeeded(RunCommand(Table({"--assemble"})));
  EXPECT_EQ(Snapshot(dir_ / "my table/cells"), cells);
  for (size_t i = 0; i < kFiles.size(); ++i) EXPECT_EQ(ReadBytes(dir_ / ("my table/" + kFiles[i])), before[i]);
}

// Each line of --list is a command for a shell, whatever stands in the paths.
TEST_F(ReproduceTest, CellsThatProcessesShareOutAreTheSame) {
  Succeeded(RunCommand(Table()));
  const CommandResult list =
      Succeeded(RunCommand({"reproduce", "--table", "10", "--scale", dir_ / "tiny.json", "--out", dir_ / "it's spread",
                            "--task-data", dir_ / "my tasks", "--threads", "1", "--list"}));
  WriteBytes(dir_ / "list", list.output);
  EXPECT_EQ(std::count(list.output.begin(), list.output.end(), '\n'), 6);
  const CommandResult spread = Succeeded(
      RunCommand({"-c", "xargs -d '\\n' -P 2 -I CELL sh -c CELL < '" + (dir_ / "list") + "'"}, {.program = "/bin/sh"}));
  for (const std::string& row : kRows) {
    for (int seed = 1; seed <= 2; ++seed) {
      for (const char* part : {"pretraining", "finetuning-stories"}) {
        const std::string file = StrCat("cells/t5-", row, "/seed-", seed, "/", part, "/model.safetensors");
        EXPECT_TRUE(ReadBytes(dir_ / ("my table/" + file)) == ReadBytes(dir_ / ("it's spread/" + file))) << file;
      }
    }
  }
  const Json there = ParseJson(ReadBytes(dir_ / "it's spread/table.json"), "table.json");
  EXPECT_EQ(there.At("claims"), Result().At("claims"));
  EXPECT_TRUE(there.At("missing").AsArray().empty()) << there.At("missing").Dump();
}

// Until there is this checkpoint or a later one: earlier ones are deleted.
bool WaitForCheckpoint(const std::string& folder, const std::string& first) {
  for (int i = 0; i < 10000; ++i) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      const std::string name = at->path().filename().string();
      if (name.size() == first.size() && name >= first) return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

TEST_F(ReproduceTest, ACellThatIsKilledGoesOnToTheSameBits) {
  WriteScale(60);
  Succeeded(RunCommand(Table({"--cell", "2", "--cells", dir_ / "whole"})));
  {
    RunningCommand running(Table({"--cell", "2", "--cells", dir_ / "cut"}));
    const std::string checkpoints = dir_ / "cut/t5-talking-encoder-24x32/seed-1/pretraining/checkpoints";
    ASSERT_TRUE(WaitForCheckpoint(checkpoints, "step-00000003"));
    running.Signal(SIGKILL);
    running.Wait();
  }
  ASSERT_FALSE(fs::exists(dir_ / "cut/t5-talking-encoder-24x32/seed-1/pretraining/model.safetensors"));
  EXPECT_TRUE(Contains(RunCommand(Table({"--assemble", "--cells", dir_ / "cut"})).output, "not finished: step "));
  Succeeded(RunCommand(Table({"--cell", "2", "--cells", dir_ / "cut"})));
  for (const char* part : {"pretraining", "finetuning-stories"}) {
    const std::string file = StrCat("/t5-talking-encoder-24x32/seed-1/", part, "/model.safetensors");
    EXPECT_TRUE(ReadBytes(dir_ / ("whole" + file)) == ReadBytes(dir_ / ("cut" + file))) << part;
  }
}

TEST_F(ReproduceTest, AnInterruptedCallSavesAndGoesOn) {
  WriteScale(2000);
  RunningCommand running(Table({"--seeds", "1"}));
  ASSERT_TRUE(WaitForCheckpoint(CellFolder(kRows[0], 1) + "/pretraining/checkpoints", "step-00000002"));
  running.Signal(SIGTERM);
  ExpectExit(running.Wait(), 143, {"the same command resumes"});
  EXPECT_EQ(Result().At("missing").AsArray().size(), 3u);
}

TEST_F(ReproduceTest, AFailedCellIsReportedAndTheOthersGoOn) {
  fs::create_directories(CellFolder(kRows[1], 1) + "/pretraining");
  WriteBytes(CellFolder(kRows[1], 1) + "/pretraining/mine.txt", "not a run's");
  ExpectExit(RunCommand(Table({"--seeds", "1"})), 1, {"failed: t5-talking-encoder-24x32, seed 1"});
  const Json failure = ParseJson(ReadBytes(CellFolder(kRows[1], 1) + "/failure.json"), "failure.json");
  EXPECT_EQ(failure.At("exit_code").AsInt(), 2);
  EXPECT_TRUE(Contains(failure.At("message").AsString(), "mine.txt"));
  const CommandResult status = Succeeded(RunCommand(Table({"--seeds", "1", "--status"})));
  EXPECT_TRUE(Contains(status.output, "| t5-talking-encoder-24x32, seed 1 | failed: pretraining: ")) << status.output;
  const Json json = Result();
  EXPECT_EQ(json.At("rows").AsArray()[0].At("seeds").AsInt(), 1);
  EXPECT_EQ(json.At("rows").AsArray()[1].At("seeds").AsInt(), 0);
  EXPECT_EQ(json.At("rows").AsArray()[2].At("seeds").AsInt(), 1);
  ASSERT_EQ(json.At("missing").AsArray().size(), 1u);
  EXPECT_TRUE(Contains(json.At("missing").AsArray()[0].At("reason").AsString(), "mine.txt"));
  fs::remove(CellFolder(kRows[1], 1) + "/pretraining/mine.txt");
  Succeeded(RunCommand(Table({"--seeds", "1"})));
  EXPECT_FALSE(fs::exists(CellFolder(kRows[1], 1) + "/failure.json"));
  EXPECT_EQ(Result().At("rows").AsArray()[1].At("seeds").AsInt(), 1);
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

TEST_F(ReproduceTest, ADryRunSaysWhatItTakesAndWritesNothing) {
  const CommandResult result = Succeeded(RunCommand(Table({"--dry-run"})));
  for (const char* text : {"| t5-multihead-24x32 | 2 | 0 | 0 |", "6 cells, 0 finished", " on disk, "}) {
    EXPECT_TRUE(Contains(result.output, text)) << result.output;
  }
  EXPECT_FALSE(fs::exists(dir_ / "my table"));
  const Json json = ParseJson(RunCommand(Table({"--dry-run", "--json"})).output, "output");
  EXPECT_EQ(json.At("cells").AsInt(), 6);
  EXPECT_GT(json.At("seconds").AsDouble(), 0);
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

// What it says of the disk bounds what it takes.
TEST_F(ReproduceTest, TheDiskThatItSaysIsEnough) {
  const Json json = ParseJson(RunCommand(Table({"--dry-run", "--json", "--seeds", "1"})).output, "output");
  Succeeded(RunCommand(Table({"--seeds", "1"})));
  uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dir_ / "my table/cells")) {
    if (entry.is_regular_file() && entry.path().extension() == ".safetensors") bytes += entry.file_size();
  }
  EXPECT_LE(bytes, static_cast<uintmax_t>(json.At("disk_bytes").AsInt()));
  EXPECT_GE(bytes * 2, static_cast<uintmax_t>(json.At("disk_bytes").AsInt()));
}

TEST_F(ReproduceTest, TasksWithoutFilesAreLeftOut) {
  ExpectExit(RunCommand({"reproduce", "--table", "10", "--scale", dir_ / "tiny.json", "--out", dir_ / "my table",
                         "--seeds", "1", "--threads", "1"}),
             0, {"not finetuned on stories: no files of them"});
  EXPECT_EQ(Result().At("rows").AsArray()[0].At("measures").At("stories").At("seeds").AsInt(), 0);
  EXPECT_FALSE(Contains(ReadBytes(dir_ / "my table/table.md"), "| stories |"));
}

TEST_F(ReproduceTest, SeveralTablesShareTheirCells) {
  const CommandResult list = Succeeded(RunCommand({"reproduce", "--table", "all", "--seeds", "1", "--list"}));
  EXPECT_EQ(std::count(list.output.begin(), list.output.end(), '\n'), 46);
}

TEST_F(ReproduceTest, RunsOfAnotherScaleAreNotMixedIn) {
  Succeeded(RunCommand(Table({"--seeds", "1"})));
  WriteScale(9);
  ExpectExit(RunCommand(Table({"--seeds", "1"})), 2, {"another scale or configuration: steps: 9 here, 8 there"});
  // What is put together says so too.
  Succeeded(RunCommand(Table({"--seeds", "1", "--assemble"})));
  EXPECT_EQ(Result().At("rows").AsArray()[0].At("seeds").AsInt(), 0);
  EXPECT_TRUE(Contains(Result().At("missing").AsArray()[0].At("reason").AsString(), "steps: 9 here, 8 there"));
  WriteScale(8);
  ExpectOtherTextIsRefused();
}

TEST_F(ReproduceTest, AnotherFinetuningIsNotMixedIn) {
  Succeeded(RunCommand(Table({"--seeds", "1"})));
  // Fields that the scale says no more, and passes that it did not say.
  for (const char* length : {R"("warmup": 1})", R"("warmup": 1}, "epochs": 1)", R"("steps": 2}, "epochs": 1)"}) {
    WriteScale(8, length);
    ExpectExit(RunCommand(Table({"--seeds", "1"})), 2, {"/finetuning-stories: holds a run of another scale"});
    Succeeded(RunCommand(Table({"--seeds", "1", "--assemble"})));
    const Json row = Result().At("rows").AsArray()[0];
    EXPECT_EQ(row.At("seeds").AsInt(), 1);
    EXPECT_EQ(row.At("measures").At("stories").At("seeds").AsInt(), 0);
  }
  WriteScale(8);
  Succeeded(RunCommand(Table({"--seeds", "1"})));
  EXPECT_EQ(Result().At("missing").AsArray().size(), 0u);
  // Where a task's files have changed, what was learnt from the new ones does not count beside the old.
  WriteBytes(dir_ / "my tasks/stories/dev.tsv", "index\tquestion\tanswer\tlabel\n0\tWho?\tThe fox.\tyes\n");
  Succeeded(RunCommand(Table({"--seeds", "2", "--cell", "4"})));
  const Json row = Result().At("rows").AsArray()[0];
  EXPECT_EQ(row.At("measures").At("ln_ppl").At("seeds").AsInt(), 2);
  EXPECT_EQ(row.At("measures").At("stories").At("seeds").AsInt(), 1);
  EXPECT_TRUE(Contains(Result().At("missing").AsArray()[0].At("reason").AsString(), "learned from other files"));
}

TEST_F(ReproduceTest, ARowThatDivergesFailsByItself) {
  WriteScale(8, R"("steps": 2})", R"(, "optimizer": "adamw", "learning_rate": 1e29)");
  const CommandResult result = ExpectExit(RunCommand(Table({"--seeds", "1"})), 1);
  EXPECT_FALSE(Contains(result.errors, "about an unknown time")) << result.errors;
  for (const std::string& row : kRows) {
    const Json failure = ParseJson(ReadBytes(CellFolder(row, 1) + "/failure.json"), "failure.json");
    EXPECT_EQ(failure.At("exit_code").AsInt(), 4) << row;
  }
}

TEST_F(ReproduceTest, ADamagedFileCostsItsCellAlone) {
  Succeeded(RunCommand(Table()));
  RemoveFromCells({"result.json"});
  WriteBytes(CellFolder(kRows[0], 1) + "/pretraining/run.json", "{");
  WriteBytes(CellFolder(kRows[1], 1) + "/finetuning-stories/scores.json", "{");
  fs::remove_all(CellFolder(kRows[2], 1));
  const CommandResult result = RunCommand(Table());
  EXPECT_TRUE(Contains(result.errors, "1 to run")) << result.errors;
  const Json json = Result();
  const auto seeds = [&](size_t row, const char* measure) {
    return json.At("rows").AsArray()[row].At("measures").At(measure).At("seeds").AsInt();
  };
  EXPECT_EQ(seeds(0, "ln_ppl"), 1);
  EXPECT_EQ(seeds(0, "stories"), 1);
  EXPECT_EQ(seeds(1, "ln_ppl"), 2);
  EXPECT_EQ(seeds(1, "stories"), 1);
  EXPECT_EQ(seeds(2, "ln_ppl"), 2);
  EXPECT_TRUE(Contains(json.At("missing").Dump(), "run.json"));
  EXPECT_TRUE(Contains(json.At("missing").Dump(), "scores.json"));
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

// Of the two tables whose rows differ in other options than attention's: each run has its row's, and the figure is over
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

TEST_F(ReproduceTest, AFigureOfCellsThatAreGoneIsRemoved) {
  Succeeded(RunCommand(Table({"--seeds", "1"})));
  ASSERT_TRUE(fs::exists(dir_ / "my table/figure.svg"));
  fs::remove_all(dir_ / "my table/cells");
  Succeeded(RunCommand(Table({"--seeds", "1", "--assemble"})));
  EXPECT_FALSE(fs::exists(dir_ / "my table/figure.svg"));
}

TEST_F(ReproduceTest, AScaleThatIsPrintedIsAFileToBeginWith) {
  const CommandResult printed = Succeeded(RunCommand({"reproduce", "--print-scale", "small"}));
  WriteBytes(dir_ / "mine.json", printed.output);
  const CommandResult list =
      Succeeded(RunCommand({"reproduce", "--table", "7", "--scale", dir_ / "mine.json", "--list"}));
  EXPECT_TRUE(Contains(list.output, "'--scale' '" + (dir_ / "mine.json") + "'")) << list.output;
}

TEST_F(ReproduceTest, ErrorsNameTheOption) {
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& expected) {
    ExpectExit(RunCommand(Joined({"reproduce"}, arguments)), 2, {expected});
  };
  refused({}, "--table: is missing");
  refused({"--table", "11"}, "--table: \"11\" is none of them");
  refused({"--table", "1", "--scale", "smal"}, "did you mean \"small\"?");
  refused({"--table", "1", "--seeds", "0"}, "--seeds: 0");
  refused({"--table", "1", "--seeds", "2", "--cell", "21"}, "--cell: 21 is not between 1 and 20");
  refused({"--table", "1", "--list", "--assemble"}, "give one");
  refused({"--table", "1", "--task-data", dir_ / "my taks", "--dry-run"}, "my taks\" is not a folder");
  refused({"--print-scale", "tiny"}, "--print-scale");
  ExpectExit(RunCommand({"reproduce", "--table", "1", "--data", dir_ / "nowhere.txt", "--out", dir_ / "x"}), 3,
             {"nowhere.txt"});
  EXPECT_FALSE(fs::exists(dir_ / "x"));
  ExpectExit(RunCommand({"reproduce", "--table", "1", "--assemble", "--out", "/proc/none/x"}), 1,
             {"--out: /proc/none: cannot create the directory: ", "; choose another folder"});
}

}  // namespace reproduce_test
}  // namespace crosstalk
