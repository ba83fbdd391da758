// The command's manners: help, options, streams and exit codes, without any training.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <new>
#include <optional>
#include <string>

#include "crosstalk/kernels/simd.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/processors.h"
#include "tests/support/command_checks.h"
#include "tests/support/decimal_comma.h"
#include "tests/support/failing_allocations.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"
#include "tools/cli/command.h"
#include "tools/cli/output.h"

namespace crosstalk {
namespace command_line_test {

using testing::Contains;

// The words without an option and its value.
std::vector<std::string> Without(const std::string& option, std::vector<std::string> words) {
  const auto at = std::find(words.begin(), words.end(), option);
  words.erase(at, at + 2);
  return words;
}

TEST(CommandLineTest, EverySubcommandHasHelpOnStandardOutput) {
  const CommandResult overview = Succeeded(RunCommand({"--help"}));
  for (const Command& command : AllCommands()) {
    const std::string& name = command.name;
    EXPECT_TRUE(Contains(overview.output, name)) << name;
    for (const auto& arguments : {std::vector<std::string>{name, "--help"}, {"help", name}}) {
      const CommandResult help = Succeeded(RunCommand(arguments));
      EXPECT_TRUE(Contains(help.output, "Usage: crosstalk " + name)) << help.output;
      EXPECT_TRUE(Contains(help.output, "--config FILE")) << name;
      EXPECT_EQ(help.errors, "");
    }
  }
}

TEST(CommandLineTest, HelpHasTwoLengthsAndNoOptionThatIsRefused) {
  for (const char* name : {"train", "finetune"}) {
    const std::string first = RunCommand({name, "--help"}).output, all = RunCommand({name, "--help=all"}).output;
    EXPECT_LE(std::count(first.begin(), first.end(), '\n'), 50) << first;
    EXPECT_TRUE(Contains(first, "--steps") && Contains(first, "--help=all")) << first;
    EXPECT_FALSE(Contains(first, "--adam-beta1")) << first;
    EXPECT_TRUE(Contains(all, "--adam-beta1")) << all;
    EXPECT_FALSE(Contains(all, "--help=all")) << all;
  }
  // What the origin decides, and what tasks do not read.
  const std::string finetune = RunCommand({"finetune", "--help=all"}).output;
  for (const char* option : {"--d-model", "--heads", "--noise-density", "--masking", "--vocabulary"}) {
    EXPECT_FALSE(Contains(finetune, StrCat("\n  ", option))) << option;
  }
  EXPECT_TRUE(Contains(finetune, "--dropout") && Contains(finetune, "--target-length")) << finetune;
  EXPECT_EQ(RunCommand({"train", "--help=some"}).exit_code, 2);
}

TEST(CommandLineTest, OptionsOfTrainAreShownByTrain) {
  for (const char* name : {"compare", "trace", "simulate"}) {
    const std::string help = RunCommand({name, "--help"}).output;
    EXPECT_EQ(help, RunCommand({name, "--help=all"}).output);
    EXPECT_FALSE(Contains(help, "\n  --d-model")) << help;
    EXPECT_TRUE(Contains(help, "`crosstalk train --help=all`")) << help;
    EXPECT_TRUE(Contains(RunCommand({"options", name}).output, "--d-model\n")) << name;
    ExpectExit(RunCommand({name, "--d-modle", "8"}), 2, {"did you mean --d-model?"});
  }
  const std::string compare = RunCommand({"compare", "--help"}).output;
  EXPECT_TRUE(Contains(compare, "but --init-from") && Contains(compare, "--steps 600")) << compare;
}

TEST(CommandLineTest, TheDocumentationOfOptionsIsWhatTheCommandPrints) {
  const char* source = std::getenv("CROSSTALK_SOURCE");
  if (source == nullptr) GTEST_SKIP() << "run by `make test`, which says where the sources are";
  const CommandResult printed = Succeeded(RunCommand({"options", "--markdown"}));
  EXPECT_TRUE(printed.output == ReadBytes(std::string(source) + "/docs/options.md"))
      << "rewrite it: build/crosstalk options --markdown > docs/options.md";
}

TEST(CommandLineTest, OptionsOfOneSubcommandAreListedOneALine) {
  const CommandResult listed = Succeeded(RunCommand({"options", "eval"}));
  EXPECT_TRUE(Contains(listed.output, "--run\n") && Contains(listed.output, "--eval-batches\n")) << listed.output;
  ExpectExit(RunCommand({"options", "evla"}), 2, {"did you mean \"eval\"?"});
}

// What a process that prints it shows on a terminal, which makes "\r\n" of line ends.
std::string OnATerminal(const std::function<void()>& print) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  EXPECT_TRUE(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
  const int end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  const pid_t child = fork();
  if (child == 0) {
    for (const int descriptor : {1, 2}) dup2(end, descriptor);
    print();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  close(end);
  // A read may give a part of what was written; at its end the terminal has nobody who writes.
  std::string shown;
  char bytes[4096];
  for (ssize_t size; (size = read(terminal, bytes, sizeof bytes)) > 0;) shown.append(bytes, static_cast<size_t>(size));
  close(terminal);
  return shown;
}

TEST(CommandLineTest, NamesDoNotControlATerminal) {
  const std::string name = "a\033]0;title\ab\u009B2J\rc\x7F\tü";
  const std::string shown = "a\uFFFD]0;title\uFFFDb\uFFFD2Jc\uFFFD\tü";
  EXPECT_EQ(OnATerminal([&] { PrintMessage("in ", name); }), "in " + shown + "\r\n");
  EXPECT_EQ(OnATerminal([&] { PrintResult(name + "\n"); }), shown + "\r\n");
  EXPECT_TRUE(Contains(OnATerminal([&] { PrintError(name.c_str(), name.c_str()); }), shown + shown));
  EXPECT_TRUE(Contains(OnATerminal([&] { ShowProgressLine(name); }), shown));
  EXPECT_EQ(OnATerminal([&] { PrintResult("\033[1m" + name + "\033[0m"); }), "\033[1m" + shown + "\033[0m");
}

TEST(CommandLineTest, ThatMemoryIsOutIsSaidWithoutMemory) {
  const char* const arguments[] = {"crosstalk", "fail"};
  const auto exit_code = [&](const std::function<int()>& run) {
    const Command command{"fail", "", "", [run](OptionTable&) { return run; }};
    ::testing::internal::CaptureStderr();
    return RunCommandLine([&] { return std::vector<Command>{command}; }, 2, arguments);
  };
  static int64_t* left = &testing::allocations_left;
  EXPECT_EQ(exit_code([]() -> int {
              *left = 0;  // from here on, until the message is out
              throw std::bad_alloc();
            }),
            5);
  *left = -1;
  EXPECT_TRUE(Contains(::testing::internal::GetCapturedStderr(), "error: out of memory"));
  EXPECT_EQ(exit_code([]() -> int {
              const Error error(ErrorKind::kData, "the message of an error that found memory");
              *left = 0;
              throw error;
            }),
            5);
  *left = -1;
  EXPECT_TRUE(Contains(::testing::internal::GetCapturedStderr(), "error: out of memory"));
}

// In a program of a country that writes 1.234,5, as one that holds the commands would be.
TEST(CommandLineTest, ResultsHavePointsWhateverTheLocale) {
  const char* source = std::getenv("CROSSTALK_SOURCE");
  if (source == nullptr) GTEST_SKIP() << "run by `make test`, which says where the sources are";
  const TempDir dir;
  Succeeded(RunCommand(TinyTrain({"--out", dir / "run", "--learning-rate", "0.125", "--vocabulary", "1234"})));
  const std::string small = std::string(source) + "/docs/reproduction/small";
  const std::vector<std::vector<std::string>> commands = {
      {"complexity", "--d-model", "2048", "--n", "12345", "--heads", "16"},
      {"complexity", "--d-model", "1024,5"},
      {"options", "--markdown"},
      {"train", "--dry-run", "--json", "--dropout", "0.25", "--learning-rate", "1e-3", "--batch", "1000"},
      {"train", "--dry-run", "--dropout", "0,25"},
      {"show", dir / "run"},
      {"report", dir / "run", "--samples", "0", "--out", dir / "report.html"},
      {"reproduce", "--table", "8", "--scale", "small", "--cells", small, "--out", dir / "table", "--assemble"},
      {"tokenize", "--tokenizer", dir / "run", std::string(source) + "/README.md"}};
  const auto run = [&](const std::vector<std::string>& words) {
    std::vector<const char*> arguments = {"crosstalk"};
    for (const std::string& word : words) arguments.push_back(word.c_str());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = RunCommandLine(AllCommands, static_cast<int>(arguments.size()), arguments.data());
    std::string all = StrCat(code, "\n", ::testing::internal::GetCapturedStdout());
    all += ::testing::internal::GetCapturedStderr();
    for (const char* file : {"report.html", "table/table.md", "table/table.csv", "table/curves.csv", "table/table.json",
                             "table/report.html", "table/figure.svg"}) {
      if (std::filesystem::exists(dir / file)) all += ReadBytes(dir / file);
      std::filesystem::remove(dir / file);
    }
    return all;
  };
  for (const std::vector<std::string>& words : commands) {
    const std::string expected = run(words);
    const testing::DecimalCommaScope comma;
    EXPECT_EQ(run(words), expected) << words[0];
  }
}

TEST(CommandLineTest, ATablesColumnsSayWhatEachFormHas) {
  struct Row {
    std::string name;
    std::optional<double> loss;
    int64_t steps;
  };
  const Columns<Row> columns = {
      {"row", "row", &Row::name},
      {"loss", "ln(PPL)", Shown([](double value) { return FixedText(value, 1); }, &Row::loss)},
      {"steps", "", &Row::steps},
      {"", "steps", Shown(CountText, &Row::steps)},
      {"all", "", [](const Row& row) { return Json::MakeArray({row.steps}); }, ForPrograms::kJson},
      {"half", "", [](const Row& row) { return row.steps / 2; }, ForPrograms::kCsv}};
  const std::vector<Row> rows = {{"a|b", 2.25, 4000}, {"\"c\", d", std::nullopt, 1}};
  EXPECT_EQ(MarkdownTable(TextOf(columns, rows)),
            "| row | ln(PPL) | steps |\n|---|---|---|\n| a\\|b | 2.2 | 4,000 |\n| \"c\", d |  | 1 |\n");
  EXPECT_EQ(CsvOf(columns, rows), "row,loss,steps,half\na|b,2.25,4000,2000\n\"\"\"c\"\", d\",,1,0\n");
  EXPECT_EQ(JsonOf(columns, rows).Dump(), R"([{"row": "a|b", "loss": 2.25, "steps": 4000, "all": [4000]}, )"
                                          R"({"row": "\"c\", d", "loss": null, "steps": 1, "all": [1]}])");
}

TEST(CommandLineTest, VersionIsOneLine) {
  const CommandResult version = Succeeded(RunCommand({"--version"}));
  EXPECT_EQ(version.output.rfind("crosstalk ", 0), 0u);
  EXPECT_EQ(std::count(version.output.begin(), version.output.end(), '\n'), 1);
}

TEST(CommandLineTest, NoSubcommandShowsHelpAsAnError) {
  const CommandResult result = ExpectExit(RunCommand({}), 2);
  EXPECT_EQ(result.output, "");
  EXPECT_TRUE(Contains(result.errors, "Usage"));
}

struct UsageCase {
  std::vector<std::string> arguments;
  std::string says;
};

TEST(CommandLineTest, WhatIsNotUnderstoodIsRefusedWithTheNearestName) {
  const std::vector<UsageCase> cases = {
      {{"tarin"}, "did you mean train?"},
      {{"train", "--d-modle", "64"}, "did you mean --d-model?"},
      {{"train", "--headz=3"}, "did you mean --heads?"},
      {{"train", "--haeds", "3"}, "did you mean --heads?"},
      {{"eval", "--runn", "x"}, "did you mean --run?"},
      {{"compare", "--seed", "1"}, "did you mean --seeds?"},
      {{"train", "--optimizer", "adafactr"}, "did you mean \"adafactor\"?"},
      {{"train", "--qqqqqqqqqq"}, "--help"},
      {{"train", "stray"}, "\"stray\""},
      {{"train", "--steps"}, "--steps"},
      {{"train", "--steps", "1", "--steps", "2"}, "--steps is given 2 times"},
      {{"train", "--steps", "ten"}, "--steps: \"ten\" is not an integer"},
      {{"train", "--steps", "1e3"}, "--steps"},
      {{"train", "--steps", "99999999999999999999"}, "out of range"},
      {{"train", "--seed", "-1"}, "--seed"},
      {{"compare", "--seeds", "1,-1"}, "--seeds: -1 is less than 0"},
      {{"compare", "--kinds", "talkin"}, "--kinds: \"talkin\" is none of "},
      {{"report", "x", "--samples", "25"}, "--samples: 25 is more than 20"},
      {{"bench", "--n", "0"}, "--n: 0 is less than 1"},
      {{"reproduce", "--table", "1", "--seeds", "0"}, "--seeds: 0 is less than 1"},
      {{"train", "--learning-rate", "nan"}, "--learning-rate"},
      {{"train", "--learning-rate", "-0.5"}, "--learning-rate"},
      {{"train", "--threads", "0"}, "--threads"},
      {{"train", "--simd", "mmx"}, "--simd: \"mmx\" is not a SIMD target of this CPU and this program, which have "},
      {{"attend", "a", "--output", "b", "--simd", ""}, "--simd is given an empty text"},
      {{"train", "--resume", "auto"}, "--out"},
      {{"train", "--out", "--dry-run"}, "--out needs a value, but the option --dry-run follows"},
      {{"train", "--out", "--steps=5"}, "--out needs a value, but the option --steps follows"},
      {{"train", "--out=", "--steps=5"}, "--out needs a value, but the option --steps follows"},
      {{"compare", "--seeds", "1,2,1"}, "--seeds: 1 stands there twice"},
      {{"compare", "--seeds", "1,"}, "--seeds: \"1,\" ends with a comma"},
      {{"compare", "--kinds", "talking,talking"}, "--kinds: talking stands there twice"},
      {{"compare", "--kinds", "talking,"}, "--kinds: \"talking,\" ends with a comma"},
      {{"eval"}, "--run"},
      {{"eval", "X", "extra"}, "\"extra\" is not expected here; --help shows what is"},
      {{"eval", "--run", "X", "--run", "Y"}, "--run is given 2 times"},
      {{"attend", "a", "b", "--output", "c"}, "\"b\" is not expected here"},
  };
  for (const UsageCase& usage : cases) {
    const CommandResult result = ExpectExit(RunCommand(usage.arguments), 2, {usage.says});
    EXPECT_EQ(result.output, "");
  }
}

// A message names options where it means fields, and leaves a value that is spelt as a field as it is.
TEST(CommandLineTest, ErrorsNameOptionsInThePlacesOfFields) {
  const char* const source = std::getenv("CROSSTALK_SOURCE");
  if (source == nullptr) GTEST_SKIP() << "run by `make test`, which says where the source is";
  const std::string lm = StrCat(source, "/tests/tools/commands/earlier_runs/lm");
  const TempDir dir;
  WriteBytes(dir / "c.json", R"({"d_model": 0})");
  const std::vector<UsageCase> cases = {
      {{"train", "--d-model", "0"}, "error: --d-model: 0 is less than 1\n"},
      {{"train", "--config", dir / "c.json"}, "/c.json: d_model: 0 is less than 1\n"},
      {{"train", "--model", "bert", "--input-length", "4"},
       "error: --input-length: 4 is less than 5, the shortest row of --sentence-task next-sentence\n"},
      {{"train", "--model", "bert", "--input-length", "100", "--most-masked", "200"},
       "error: --most-masked: 200 is more than --input-length = 100\n"},
      {{"train", "--model", "bert", "--input-length", "100", "--max-positions", "50"},
       "error: --input-length: 100 tokens are more than --max-positions = 50\n"},
      {{"train", "--model", "albert", "--layers", "2", "--layer-kinds", "talking,multihead"},
       "error: --layer-kinds: 2 kinds, but the layers of an ALBERT share 1 block; "
       "--layer-groups and --inner-layers say how many there are\n"},
      {{"train", "--model", "t5", "--relative-attention-max-distance", "3"},
       "error: --relative-attention-max-distance: 3 is not more than 8, the distances that have a bucket each with "
       "--relative-buckets = 32\n"},
      {{"inspect", lm, "--text", "The miller sang.", "--max-tokens", "4", "--json"},
       "error: --text: is 16 tokens long, more than --max-tokens = 4: shorten it, or raise --max-tokens; "
       "maps grow with its square\n"},
      {{"train", "--init-from", lm, "--heads", "4", "--d-model", "48"},
       " is of another model:\n  --heads: 4 here, 2 there\n  --d-model: 48 here, 4 there\nleave these options out"},
      {{"train", "--dynamic", "value_size,value_size"}, "error: --dynamic: value_size stands there twice\n"},
      {{"simulate", "--network", "learning_rate"}, "error: --network: learning_rate is none of "},
  };
  for (const UsageCase& usage : cases) ExpectExit(RunCommand(usage.arguments), 2, {usage.says});
}

TEST(CommandLineTest, TheEnvironmentChoosesTheInstructionSetUnlessTheOptionDoes) {
  const std::vector<std::string> arguments = {"train", "--dry-run"};
  ExpectExit(RunCommand(arguments, {.environment = {"CROSSTALK_SIMD=mmx"}}), 2,
             {"CROSSTALK_SIMD: \"mmx\" is not a SIMD target"});
  const std::string narrowest = kernels::SupportedSimdTargets().back();
  Succeeded(RunCommand(Joined(arguments, {"--simd", narrowest}), {.environment = {"CROSSTALK_SIMD=mmx"}}));
  Succeeded(RunCommand(arguments, {.environment = {"CROSSTALK_SIMD="}}));
  // What computes nothing does not ask.
  Succeeded(RunCommand({"options"}, {.environment = {"CROSSTALK_SIMD=mmx"}}));
}

TEST(CommandLineTest, ImpossibleDimensionsAreNamed) {
  const std::vector<UsageCase> cases = {
      {{"--d-model", "17", "--heads", "4"}, "d_model"},
      {{"--d-model", "0"}, "--d-model"},
      {{"--heads", "-3"}, "--heads"},
      {{"--heads", "0"}, "--heads"},
      {{"--attention", "multihead", "--key-heads", "3"}, "h_k=3"},
      {{"--attention", "talkin"}, "talkin"},
      {{"--encoder-self", "bilinea"}, "bilinea"},
      {{"--dynamic", "Xl,Zz"}, "Zz"},
      {{"--batch", "5", "--shards", "6"}, "--shards"},
      {{"--input-length", "2"}, "--input-length"},
      {{"--layers", "0"}, "--layers"},
      {{"--dropout", "1.5"}, "--dropout"},
      {{"--implementation", "magic"}, "magic"},
      {{"--schedule", "cosin"}, "cosine"},
      {{"--vocabulary", "3"}, "--vocabulary"},
  };
  for (const UsageCase& usage : cases) {
    const TempDir dir;
    ExpectExit(RunCommand(Joined(Joined({"train"}, usage.arguments), {"--out", dir / "run"})), 2, {usage.says});
    EXPECT_FALSE(std::filesystem::exists(dir / "run")) << usage.says;
  }
}

TEST(CommandLineTest, DryRunPrintsTheResolvedConfigurationAndWritesNothing) {
  const TempDir dir;
  const CommandResult result =
      Succeeded(RunCommand(TinyTrain({"--out", dir / "run", "--dry-run", "--json", "--attention", "dynamic"})));
  const Json json = ParseJson(result.output, "output");
  EXPECT_EQ(json.At("configuration").At("d_model").AsInt(), 16);
  EXPECT_EQ(json.At("configuration").At("warmup").AsInt(), 4);
  EXPECT_GT(json.At("parameters").AsInt(), 0);
  EXPECT_GT(json.At("memory_bytes").AsInt(), json.At("parameters").AsInt() * 4);
  EXPECT_GT(json.At("multiplications_per_step").AsInt(), 0);
  EXPECT_FALSE(json.At("data").AsString().empty());
  EXPECT_FALSE(std::filesystem::exists(dir / "run"));
}

TEST(CommandLineTest, DryRunSaysWhichImplementationItEstimates) {
  std::vector<Json> of;
  for (const char* implementation : {"fused", "composed"}) {
    const std::vector<std::string> options = {"--input-length", "512", "--implementation", implementation, "--dry-run"};
    const CommandResult text = RunCommand(TinyTrain(options));
    EXPECT_TRUE(Contains(text.output, StrCat("implementation              ", implementation))) << text.output;
    of.push_back(ParseJson(RunCommand(TinyTrain(Joined(options, {"--json"}))).output, "output"));
    EXPECT_EQ(of.back().At("implementation").AsString(), implementation);
  }
  EXPECT_LT(of[0].At("activation_bytes").AsInt(), of[1].At("activation_bytes").AsInt());
  EXPECT_EQ(of[0].At("multiplications_per_step"), of[1].At("multiplications_per_step"));
  const CommandResult by_default = RunCommand(TinyTrain({"--dry-run", "--json"}));
  EXPECT_EQ(ParseJson(by_default.output, "output").At("implementation").AsString(), "fused");
}

TEST(CommandLineTest, ConfigurationFileIsReadAndTheCommandLineOverridesIt) {
  const TempDir dir;
  WriteBytes(dir / "c.json", R"({"d_model": 32, "heads": 4, "attention": "logits", "learning_rate": null})");
  const CommandResult result =
      Succeeded(RunCommand({"train", "--config", dir / "c.json", "--heads", "2", "--dry-run", "--json"}));
  const Json json = ParseJson(result.output, "output");
  EXPECT_EQ(json.At("configuration").At("d_model").AsInt(), 32);
  EXPECT_EQ(json.At("configuration").At("heads").AsInt(), 2);
  EXPECT_EQ(json.At("configuration").At("attention").AsString(), "logits");

  // What run.json calls "configuration" is such a file.
  WriteBytes(dir / "again.json", json.At("configuration").Dump());
  const CommandResult again = Succeeded(RunCommand({"train", "--config", dir / "again.json", "--dry-run", "--json"}));
  EXPECT_EQ(again.output, result.output);
}

TEST(CommandLineTest, AConfigurationFileSaysAListAsOneOrAsTheCommandLineWould) {
  const TempDir dir;
  const CommandResult listed = Succeeded(RunCommand({"bench", "--list", "--filter", "talking-12,decode-lm"}));
  for (const char* filter : {R"(["talking-12", "decode-lm"])", R"("talking-12,decode-lm")"}) {
    WriteBytes(dir / "c.json", StrCat(R"({"list": true, "filter": )", filter, "}"));
    EXPECT_EQ(Succeeded(RunCommand({"bench", "--config", dir / "c.json"})).output, listed.output) << filter;
  }
}

// As in other tools' files: what the file stands beside is found from anywhere.
TEST(CommandLineTest, PathsOfAConfigurationFileAreRelativeToIt) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "some/folder");
  for (const char* name : {"some/text.txt", "some/folder/held_out.txt"}) {
    WriteBytes(dir / name, std::string(2000, 'a') + "\n");
  }
  WriteBytes(dir / "some/folder/c.json", StrCat(R"({"data": "../text.txt", "validation": "held_out.txt",
      "tokenizer": "bytes", "out": "run", "init_from": ")",
                                                dir / "some/origin", R"("})"));
  Succeeded(RunCommand(TinyTrain({"--data", dir / "some/text.txt", "--out", dir / "some/origin"})));
  const std::vector<std::string> tiny = Without("--tokenizer", TinyTrain({"--config", dir / "some/folder/c.json"}));
  Succeeded(RunCommand(tiny));
  const Json run = ParseJson(ReadBytes(dir / "some/folder/run/run.json"), "run.json");
  EXPECT_EQ(run.At("configuration").At("data").AsString(), dir / "some/folder/../text.txt");
  EXPECT_EQ(run.At("configuration").At("validation").AsString(), dir / "some/folder/held_out.txt");
  EXPECT_EQ(run.At("configuration").At("tokenizer").AsString(), "bytes");
  // What the command line says is relative to the working folder, also where the file says another.
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir / "some");
  const CommandResult there = RunCommand(Joined(tiny, {"--out", "run", "--data", "text.txt", "--resume", "if-any"}));
  // Other commands' too: lists, and what is a word and no path.
  WriteBytes(dir / "some/folder/show.json", R"({"RUN": ["run", "../run"], "json": true})");
  const CommandResult shown = RunCommand({"show", "--config", "folder/show.json"});
  WriteBytes(dir / "some/folder/again.json", R"({"out": "run", "resume": "auto"})");
  const CommandResult again = RunCommand({"train", "--config", "folder/again.json"});
  WriteBytes(dir / "some/folder/tokens.json", R"({"tokenizer": "bytes", "input": "held_out.txt"})");
  const CommandResult tokens = RunCommand({"tokenize", "--config", "folder/tokens.json"});
  std::filesystem::current_path(before);
  ExpectExit(there, 0, {"there is no run in run: a new one begins"});
  EXPECT_TRUE(std::filesystem::exists(dir / "some/run/model.safetensors"));
  ExpectExit(shown, 0);
  EXPECT_EQ(std::count(shown.output.begin(), shown.output.end(), '\n'), 2) << shown.output;
  ExpectExit(again, 0, {"finished: 8 steps"});
  ExpectExit(tokens, 0);
  ExpectExit(RunCommand({"train", "--dry-run", "--config", dir / "some/folder/c.json", "--init-from", "origin"}), 2,
             {R"("origin")"});
}

// A path that a row does not call one would be relative to the working folder in a configuration file.
TEST(CommandLineTest, EveryOptionThatNamesAPlaceSaysSo) {
  for (const Command& command : AllCommands()) {
    OptionTable options;
    command.declare(options);
    options.AddConfig();
    for (const OptionTable::Row& row : options.Rows()) {
      const std::vector<std::string> places = {"FILE", "PATH", "FOLDER", "RUN", "MODEL", "WHICH", "WHAT", "KIND"};
      const bool place =
          row.choices.empty() && std::find(places.begin(), places.end(), row.placeholder) != places.end();
      EXPECT_TRUE(row.is_path == place || row.names[0] == "--scale") << command.name << " " << row.names[0];
    }
  }
}

// Before the work, not after it: of the training, of the model that is not there, of the benchmark.
TEST(CommandLineTest, APlaceThatCannotBeWrittenIsSaidAtOnce) {
  const TempDir dir;
  WriteBytes(dir / "file", "text");
  std::filesystem::create_directory(dir / "folder");
  const std::vector<std::pair<std::vector<std::string>, std::string>> commands = {
      {{"trace"}, "--out"},
      {{"simulate"}, "--out"},
      {{"simulate"}, "--record"},
      {{"simulate", "--recording", dir / "none.json"}, "--out"},
      {{"inspect", dir / "none"}, "--out"},
      {{"inspect", dir / "none", "--text", "a"}, "--tensors"},
      {{"attend", dir / "none"}, "--output"},
      {{"forward", dir / "none", "--inputs", dir / "none"}, "--output"},
      {{"bench", "--filter", "memory-8192"}, "--json"},
      {{"export", dir / "none"}, "--out"},
      {{"import", dir / "none"}, "--out"},
      {{"train"}, "--out"},
      {{"compare"}, "--out"},
      {{"reproduce", "--table", "1"}, "--out"}};
  for (const auto& [words, option] : commands) {
    const bool folder = words[0] == "export" || words[0] == "import" || words[0] == "train" || words[0] == "compare" ||
                        words[0] == "reproduce";
    std::vector<std::string> places = {dir / "file/within/deep"};
    if (!folder) places.insert(places.end(), {dir / "missing/deep", dir / "folder"});
    for (const std::string& place : places) {
      const CommandResult result = RunCommand(Joined(words, {option, place}), {.most_seconds = 20});
      EXPECT_TRUE(result.exit_code == 1 || result.exit_code == 2) << words[0] << ": " << result.exit_code;
      EXPECT_TRUE(Contains(result.errors, folder ? dir / "file" : place)) << words[0] << ": " << result.errors;
      EXPECT_FALSE(Contains(result.errors, "[1/")) << result.errors;  // the first run of several
    }
  }
  EXPECT_EQ(ReadBytes(dir / "file"), "text");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 2);
}

// Where this process may make a control group: as root outside of most containers.
TEST(CommandLineTest, ThreadsFollowTheQuotaOfTheControlGroup) {
  const TempDir dir;
  const std::string name = "crosstalk-test-" + std::to_string(getpid());
  const std::string script = dir / "in_group.sh";
  WriteBytes(script, StrCat(R"(set -e
if [ -f /sys/fs/cgroup/cpu/cpu.cfs_quota_us ]; then
  group=/sys/fs/cgroup/cpu/)",
                            name, R"(
  mkdir $group $group/child
  echo 100000 > $group/cpu.cfs_period_us; echo 150000 > $group/cpu.cfs_quota_us
else
  group=/sys/fs/cgroup/)",
                            name, R"(
  mkdir $group; echo +cpu > $group/cgroup.subtree_control; mkdir $group/child
  echo 150000 100000 > $group/cpu.max
fi
trap 'rmdir $group/child $group' EXIT
sh -c "echo \$\$ > $group/child/cgroup.procs; exec \"\$@\"" sh "$@"
)"));
  CommandOptions in_group;
  in_group.program = "/bin/sh";
  if (RunCommand({script, "true"}, in_group).exit_code != 0) GTEST_SKIP() << "no control group of one's own here";
  const std::vector<std::string> tiny =
      Joined({script, CrosstalkBinary()}, Without("--threads", TinyTrain({"--steps", "1"})));
  const CommandResult result = RunCommand(Joined(tiny, {"--out", dir / "run"}), in_group);
  const int most = std::min(2, ProcessorsOfMask());
  ExpectExit(result, 0, {StrCat(", ", most, most == 1 ? " thread," : " threads,")});
  EXPECT_FALSE(Contains(result.errors, "warning")) << result.errors;
  ExpectExit(RunCommand(Joined(tiny, {"--out", dir / "more", "--threads", "64"}), in_group), 0,
             {StrCat("warning: --threads 64: this process may use ", most), "a quota of 1.5", ", 64 threads,"});
}

TEST(CommandLineTest, FaultsOfAConfigurationFileNameFileAndKey) {
  const TempDir dir;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"d_modle": 32})", "did you mean \"d_model\"?"},
      {R"({"d_model": true})", "d_model"},
      {R"({"json": 3})", "json"},
      {R"({"d_model": "wide"})", "d_model: "},
      {R"([1, 2])", "c.json"},
      {R"({"d_model": 32)", "c.json"},
      {R"({"threads": 5000})", "c.json: threads: 5000 is more than 4096"},
      {R"({"data": "one\u0000two"})", "c.json: data: "},
      {R"({"shards": 2, "accumulate": 2})", "c.json: accumulate: is there twice"},
  };
  for (const auto& [text, says] : cases) {
    WriteBytes(dir / "c.json", text);
    ExpectExit(RunCommand({"train", "--dry-run", "--config", dir / "c.json"}), 2, {says, "c.json"});
  }
}

TEST(CommandLineTest, AResultThatCannotBeWrittenIsAnError) {
  ExpectExit(RunCommand({"train", "--dry-run", "--json"}, {.output_to = "/dev/full"}), 5, {"standard output"});
}

TEST(CommandLineTest, APipeThatNobodyReadsEndsItQuietly) {
  for (const char* arguments : {"train --help", "train --dry-run", "--version", "options"}) {
    const std::string line = StrCat("{ sleep 0.1; '", CrosstalkBinary(), "' ", arguments, "; echo $? >&2; } | true");
    EXPECT_EQ(RunCommand({"-c", line}, {.program = "/bin/sh"}).errors, "141\n") << arguments;
  }
}

TEST(CommandLineTest, NothingButTextGoesToAPipe) {
  const CommandResult result = RunCommand({"train", "--nothing"});
  EXPECT_EQ(result.errors.find('\033'), std::string::npos);
  EXPECT_EQ(result.errors.find('\r'), std::string::npos);
}

TEST(CommandLineTest, TextFromOutsideIsShownInPart) {
  const std::string word(100'000, 'x');
  const std::vector<std::vector<std::string>> cases = {
      {word},
      {"train", "--" + word},
      {"train", "-" + word},
      {"train", word},
      {"train", "--steps", word},
      {"train", "--steps", std::string(100'000, '9')},
      {"train", "--optimizer", word},
      {"train", "--model", word},
      {"train", "--objective", word},
      {"train", "--tokenizer", word, "--dry-run"},
      {"train", "--dynamic", word},
      {"train", "--dynamic", "Xl," + word + "," + word},
      {"compare", "--kinds", word},
      {"compare", "--seeds", word},
      {"compare", "--seeds", word + ","},
      {"attend", "in", "--output", "out", "--precision", word},
      {"bench", "--filter", word},
      {"options", word},
      {"help", word},
  };
  for (const std::vector<std::string>& arguments : cases) {
    const CommandResult result = RunCommand(arguments);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_LT(result.errors.size(), 2000u) << arguments[0] << " " << result.errors.substr(0, 300);
  }
  const TempDir dir;
  const std::string text(3'000'000, 'x');
  for (const std::string& json :
       {"{\"" + text + "\": 1}", "{\"optimizer\": \"" + text + "\"}", "{\"steps\": \"" + text + "\"}",
        "{\"data\": " + text + "}", "{\"out\": [\"" + text + "\", {}]}", "{\"a\": 1, \"" + text + "\": \"\n\"}"}) {
    WriteBytes(dir / "config.json", json);
    const CommandResult result = ExpectExit(RunCommand({"train", "--config", dir / "config.json", "--dry-run"}), 2);
    EXPECT_LT(result.errors.size(), 1000u) << json.substr(0, 40) << ": " << result.errors.substr(0, 300);
  }
}

TEST(CommandLineTest, ControlCharactersOfATextDoNotReachTheTerminal) {
  const CommandResult result = ExpectExit(RunCommand({"train", "--optimizer", "a\x1b[2J\nb"}), 2, {"a\\x1b[2J\\nb"});
  EXPECT_EQ(result.errors.find('\x1b'), std::string::npos);
}

}  // namespace command_line_test
}  // namespace crosstalk
