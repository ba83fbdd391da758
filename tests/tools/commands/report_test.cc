// `crosstalk report` and `crosstalk show`: what they say of a run, whole, lost in part, damaged or hostile.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace report_test {

using testing::Contains;

void ExpectParts(const std::string& text, const std::vector<std::string>& parts,
                 const std::vector<std::string>& none = {}) {
  for (const std::string& part : parts) EXPECT_TRUE(Contains(text, part)) << part << "\nin\n" << text;
  for (const std::string& part : none) EXPECT_FALSE(Contains(text, part)) << part << "\nin\n" << text;
}

const std::string kUtf8Locale = "LC_ALL=C.UTF-8", kPlainLocale = "LC_ALL=C";

// One run for all tests, in a folder whose name and text a page must not believe. Each test changes a copy.
class ReportTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    suite_ = new TempDir();
    std::string text;
    for (int i = 0; i < 300; ++i) text += "<script>alert(1)</script> & <b>bold</b> words. ";
    WriteBytes(*suite_ / "text.txt", text);
    const CommandResult result = Succeeded(
        RunCommand(TinyTrain({"--data", *suite_ / "text.txt", "--out", *suite_ / "<img src=x>run", "--steps", "12"})));
    ASSERT_TRUE(Contains(result.errors, "report.html")) << result.errors;
  }
  static void TearDownTestSuite() { delete suite_; }

  void SetUp() override { std::filesystem::copy(*suite_ / "<img src=x>run", Run(), Recursive()); }
  static std::filesystem::copy_options Recursive() { return std::filesystem::copy_options::recursive; }

  std::string Run() const { return dir_ / "<img src=x>run"; }
  // The page that is written to --out.
  std::string Report(std::vector<std::string> words) const {
    Succeeded(RunCommand(Joined({"report", "--out", dir_ / "page.html"}, words)));
    return ReadBytes(dir_ / "page.html");
  }
  std::string Show(const std::vector<std::string>& words, const std::string& locale = kUtf8Locale) const {
    const CommandResult result = Succeeded(RunCommand(Joined({"show"}, words), {.environment = {locale}}));
    return result.output;
  }

  static TempDir* suite_;
  TempDir dir_;
};
TempDir* ReportTest::suite_ = nullptr;

TEST_F(ReportTest, TheEndOfATrainingWritesWhatReportWrites) {
  const std::string written = ReadBytes(*suite_ / "<img src=x>run/report.html");
  Succeeded(RunCommand({"report", *suite_ / "<img src=x>run", "--out", dir_ / "page.html", "--threads", "2"}));
  EXPECT_TRUE(ReadBytes(dir_ / "page.html") == written);
  ExpectParts(written, {"ln(PPL)", "learning rate", "gradient norm", "tokens per second", "Blanks of held-out text",
                        "encoder-decoder attention", "multiplications of a layer", "finished",
                        "Computed in fp32, as the run was trained"});
}

TEST_F(ReportTest, TextFromARunIsEscaped) {
  ExpectParts(Report({Run()}), {"&lt;img src=x&gt;run", "&lt;script&gt;"},  // in the sample's text
              {"<img src=x>", "alert(1)</script>", "<b>bold"});
}

TEST_F(ReportTest, SaysWhereARunWasResumedAndContinued) {
  Succeeded(RunCommand({"train", "--resume", Run(), "--steps", "16"}));
  std::filesystem::remove(Run() + "/model.safetensors");
  std::filesystem::remove_all(Run() + "/checkpoints/step-00000016");
  Succeeded(RunCommand({"train", "--resume", Run(), "--steps", "16"}));
  ExpectParts(Report({Run()}), {">continued</text>", "The run was of 12 steps, and was continued from there."});
  ExpectParts(Show({Run()}), {"continued"});
  const Json story = ParseJson(Show({Run(), "--json"}), "show");
  EXPECT_EQ(story.At("events").AsArray()[0].At("event"), Json("continued"));
  EXPECT_EQ(story.At("events").AsArray()[0].At("step"), Json(12));
}

TEST_F(ReportTest, OfSeveralRunsTheDifferencesComeFirst) {
  const CommandResult other = Succeeded(RunCommand(TinyTrain(
      {"--attention", "multihead", "--data", *suite_ / "text.txt", "--out", dir_ / "other", "--steps", "12"})));
  const std::string page = Report({Run(), dir_ / "other", "--samples", "0"});
  ExpectParts(page,
              {"<tr><th scope=\"row\">attention</th><td>talking</td><td>multihead</td></tr>",
               "<span class=\"name\">other</span>"},
              {"held-out text, filled in"});
  EXPECT_LT(page.find("Fields in which the runs differ"), page.find("The same in all runs"));
  // A folder of runs means those in it.
  EXPECT_EQ(Report({dir_.path(), "--samples", "0"}).size(), page.size());
}

// Four runs of two settings, whose last scores are written into their metrics; a fifth has not ended.
TEST_F(ReportTest, RunsThatDifferInTheirSeedAloneAreOneSetting) {
  const auto train = [this](const std::string& attention, const std::string& seed, const std::string& score) {
    const std::string run = dir_ / (attention + seed);
    Succeeded(RunCommand(TinyTrain(
        {"--attention", attention, "--data", *suite_ / "text.txt", "--seed", seed, "--keep", seed, "--out", run})));
    std::string lines = ReadBytes(run + "/metrics.jsonl");
    const size_t last = lines.find("\"ln_ppl\": ", lines.rfind("\"event\": \"eval"));
    ASSERT_NE(last, std::string::npos) << lines;
    const size_t value = last + std::string("\"ln_ppl\": ").size();
    lines.replace(value, lines.find_first_of(",}", value) - value, score);
    WriteBytes(run + "/metrics.jsonl", lines);
  };
  train("talking", "1", "2.0");
  train("talking", "2", "2.5");
  train("multihead", "1", "2.25");
  train("multihead", "2", "3.0");
  train("multihead", "3", "9.0");
  std::filesystem::remove_all(Run());
  std::string lines = ReadBytes(dir_ / "multihead3/metrics.jsonl");
  WriteBytes(dir_ / "multihead3/metrics.jsonl", lines.substr(0, lines.find("\"step\": 7")));
  // -0.25 and -0.5: t(0.95, 1) = 12.7062 times their deviation 0.17678 over √2 on each side. The curve of a setting is
  // the mean of its runs, in a band; its values stand in the chart's table.
  ExpectParts(Report({dir_.path(), "--samples", "0"}),
              {"<th scope=\"row\">attention multihead</th><td>1, 2</td><td>2.6250 ± 0.5303</td>",
               "<th scope=\"row\">attention talking</th><td>1, 2</td><td>2.2500 ± 0.3536</td>",
               "<td>attention talking</td><td>attention multihead</td><td class=\"number\">-0.3750</td>"
               "<td>-1.9633 … 1.2133</td><td class=\"number\">2</td>",
               "held-out ln(PPL), mean and range over seeds", "<td>2.25 (2 to 2.5)</td>"});
  // One setting has nothing to subtract from, and single runs stand in the overview alone.
  ExpectParts(Report({dir_ / "talking1", dir_ / "talking2", "--samples", "0"}),
              {"<th scope=\"row\">all runs</th><td>1, 2</td><td>2.2500 ± 0.3536</td>"},
              {"Differences over the same seeds"});
  ExpectParts(Report({dir_ / "talking1", dir_ / "multihead1", "--samples", "0"}), {}, {"differ in their seed"});
}

// What is damaged or lost is said, on the page and in the terminal, and the rest stands.
TEST_F(ReportTest, WhatIsLostOrDamagedIsSaid) {
  const std::string metrics = Run() + "/metrics.jsonl", run_file = Run() + "/run.json";
  const std::string lines = ReadBytes(metrics), json = ReadBytes(run_file), layers = "\"encoder_layers\": 1";
  const auto write = [&](const std::string& bytes) { return [&, bytes] { WriteBytes(metrics, bytes); }; };
  const std::string in_between = std::string(lines).insert(
      lines.find('\n') + 1,
      "{\"event\": \"tr\n[1]\n\xff\xfe\n{\"event\": \"eval\", \"step\": 1, \"<script>x\": 3}\n"
      "{\"event\": \"resumed\", \"step\": 3}\n{\"event\": \"train\", \"step\": 1e3, \"loss\": \"no\"}\n");
  const std::vector<std::string> no_numbers = {"-nan", "nanL", "\"inf\"", "-inf", "inf ms", "00000000000000000"};
  const struct {
    const char* name;
    std::function<void()> damage;
    std::vector<std::string> page, story, none;
  } rows[] = {
      {"a line that is torn off", write(lines + "{\"event\": \"tr"), {}, {}, {"damaged"}},
      {"lines that are none",
       write(in_between),
       {"3 lines are damaged and left out, the first is line 2"},
       {},
       {"<script>x"}},
      {"a run that still trains",
       [&] {
         std::filesystem::remove(Run() + "/model.safetensors");
         WriteBytes(metrics, lines.substr(0, lines.find("{\"event\": \"train\", \"step\": 9,")));
       },
       {"the run has not ended: the last line of metrics.jsonl is of step 8 of 12", "By the checkpoint of step 12."},
       {"--resume auto"},
       {}},
      {"numbers that are none",
       write(R"({"event": "train", "step": 9223372036854775807, "loss": 1}
{"event": "train", "step": 1, "loss": 1e17, "tokens_per_second": null, "seconds": 1e308}
{"event": "train", "step": 2, "loss": 100000000000000016, "tokens_per_second": 1e300, "seconds": 1e308}
{"event": "train", "step": 3, "loss": 1e17, "tokens_per_second": 5000, "seconds": 0.1}
{"event": "eval", "step": 3, "ln_ppl": 2.5, "a\nb": 1}
)"),
       {"tokens per second"},
       {"at step 3 of 12", ", 5,000 tokens/s", "held-out a\\nb"},
       {}},
      {"measures that no run comes near",
       write(R"({"event": "train", "step": 1, "loss": 1e308, "seconds": 0.1}
{"event": "train", "step": 1, "loss": 3, "seconds": 1e99}
{"event": "eval", "step": 1, "ln_ppl": 1e308}
{"event": "eval", "step": 2, "ln_ppl": -1e308}
{"event": "eval", "step": 2, "ln_ppl": 3, "constant_guess": {"ln_ppl": 1e308}}
{"event": "eval", "step": 2, "ln_ppl": -1e99}
{"event": "eval", "step": 3, "ln_ppl": 1e99}
)"),
       {"4 lines are damaged and left out, the first is line 1"},
       {"1.00000e+99"},
       no_numbers},
      {"more layers than anybody has",
       [&] { WriteBytes(run_file, std::string(json).replace(json.find(layers), layers.size(), layers + "000000000")); },
       {"encoder_layers: is more than 10000"},
       {},
       {}},
      {"no metrics",
       [&] { std::filesystem::remove(metrics); },
       {"metrics.jsonl is missing", "encoder-decoder attention"},
       {"metrics.jsonl is missing"},
       {}},
      {"a folder instead of metrics",
       [&] {
         std::filesystem::remove(metrics);
         std::filesystem::create_directory(metrics);
       },
       {"metrics.jsonl: is a directory: there are no curves"},
       {},
       {}},
      {"no JSON in run.json", [&] { WriteBytes(run_file, "{"); }, {}, {"run.json: byte 1"}, {}},
      {"no run.json",
       [&] { std::filesystem::remove(run_file); },
       {"run.json is missing", "ln(PPL)"},
       {"run.json is missing"},
       {}},
      {"no checkpoint",
       [&] {
         std::filesystem::remove_all(Run() + "/checkpoints");
         std::filesystem::remove(Run() + "/tokenizer.json");
       },
       {"No sample: ", "ln(PPL)"},
       {},
       {}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    std::filesystem::remove_all(Run());
    SetUp();
    row.damage();
    const std::string page = Report({Run()}), story = Show({Run()});
    ExpectParts(page, row.page, row.none);
    ExpectParts(story, row.story, no_numbers);
    const size_t first = story.find("run.json: byte 1");  // said once
    EXPECT_EQ(first == std::string::npos ? first : story.find("run.json: byte 1", first + 1), std::string::npos);
  }
  EXPECT_TRUE(Contains(RunCommand({"report", Run()}).errors, "<img src=x>run: No sample: "));
}

TEST_F(ReportTest, CommandsToGoOnWithAreQuoted) {
  std::filesystem::copy(Run(), dir_ / "it's $HOME", Recursive());
  EXPECT_TRUE(Contains(Show({dir_ / "it's $HOME"}), "/it'\\''s $HOME' --steps 24"));
}

TEST_F(ReportTest, WhatIsNoRunIsRefused) {
  std::filesystem::create_directory(dir_ / "empty");
  WriteBytes(dir_ / "file", "x");
  for (const char* name : {"empty", "file", "nothing"}) {
    for (const char* command : {"report", "show"}) {
      ExpectExit(RunCommand({command, dir_ / name}), 3, {dir_ / name});
    }
  }
  EXPECT_EQ(RunCommand({"report"}).exit_code, 2);
}

TEST_F(ReportTest, ReplacesNothingButAReport) {
  const std::string run = ReadBytes(Run() + "/run.json");
  ExpectExit(RunCommand({"report", Run(), "--out", Run() + "/run.json"}), 2);
  EXPECT_EQ(ReadBytes(Run() + "/run.json"), run);
  Succeeded(RunCommand({"report", Run()}));
  EXPECT_EQ(RunCommand({"report", Run(), "--out", dir_ / "no/such/page.html"}).exit_code, 2);
}

TEST_F(ReportTest, OfATableItIsThePageThatWasMadeWithIt) {
  std::filesystem::create_directory(dir_ / "table-1");
  WriteBytes(dir_ / "table-1/table.json", "{}");
  EXPECT_EQ(RunCommand({"report", dir_ / "table-1"}).exit_code, 3);
  WriteBytes(dir_ / "table-1/report.html", "<!DOCTYPE html><title>Table 1</title>");
  for (const char* table : {"table-1", "table-1/table.json"}) {
    EXPECT_EQ(Report({dir_ / table}), "<!DOCTYPE html><title>Table 1</title>") << table;
    EXPECT_EQ(RunCommand({"report", dir_ / table, Run()}).exit_code, 2) << table;
  }
}

TEST_F(ReportTest, ShowDrawsInTheLocalesCharacters) {
  ExpectParts(Show({Run()}), {"█"});
  ExpectParts(Show({Run()}, kPlainLocale),
              {"#", "t5, talking attention, 2 heads", "finished after 12 steps", "best ln(PPL)", "what next"}, {"█"});
}

TEST_F(ReportTest, ShowAsJsonHasTheScores) {
  const Json story = ParseJson(Show({Run(), "--json"}), "show");
  EXPECT_EQ(story.At("finished"), Json(true));
  EXPECT_EQ(story.At("step"), Json(12));
  EXPECT_EQ(story.At("last").At("value"), story.At("held_out").At("ln_ppl"));
  EXPECT_LE(story.At("best").At("value").AsDouble(), story.At("last").At("value").AsDouble());
}

TEST_F(ReportTest, OfEachModelItShowsWhatItWrites) {
  const std::vector<std::string> masked = {"Hidden words of held-out text, filled in", "masked accuracy",
                                           "best constant guess"};
  for (const std::string model : {"bert", "albert", "lm"}) {
    Succeeded(RunCommand(TinyTrain({"--model", model, "--input-length", "32", "--out", dir_ / model})));
    ExpectParts(Report({dir_ / model}), model == "lm" ? std::vector<std::string>{"<mark>"} : masked);
  }
}

TEST_F(ReportTest, OfATaskItShowsTheScores) {
  const std::string examples = std::string(std::getenv("CROSSTALK_SOURCE")) + "/examples";
  const std::string seeds = dir_ / "seeds";
  Succeeded(
      RunCommand({"finetune", "--from", Run(), "--task", "stories", "--task-data", examples, "--input-length", "48",
                  "--batch", "4", "--steps", "3", "--target-length", "8", "--seeds", "1,2", "--out", seeds}));
  ExpectParts(ReadBytes(seeds + "/seed-1/report.html"),
              {"best constant answer", "<th scope=\"row\">stories</th><td>accuracy</td>"});
  ExpectParts(ReadBytes(seeds + "/report.html"), {"<th scope=\"row\">seed</th>"});
  // Beside a run whose score is another measure, each score says which it is.
  ExpectParts(Report({Run(), seeds + "/seed-1", "--samples", "0"}), {">best held-out</th>", ">ln(PPL) "});
  // A folder of runs has its page in it, and the same command goes on there.
  std::filesystem::remove(seeds + "/report.html");
  Succeeded(RunCommand({"report", seeds}));
  EXPECT_TRUE(std::filesystem::exists(seeds + "/report.html"));
  Succeeded(
      RunCommand({"finetune", "--from", Run(), "--task", "stories", "--task-data", examples, "--input-length", "48",
                  "--batch", "4", "--steps", "3", "--target-length", "8", "--seeds", "1,2", "--out", seeds}));
}

}  // namespace report_test
}  // namespace crosstalk
