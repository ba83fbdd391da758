// The command's manners inside of a process: terminals, memory, locales, columns. tests/sessions/manners.session has
// those that a user sees.
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

#include "crosstalk/runtime/json.h"
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

// The two ends of a new terminal. A root folder of its own may have no terminals, or another's: then `end` is -1, and a
// read would wait for ever.
struct Terminal {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  const int end = terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0
                      ? open(ptsname(terminal), O_RDWR | O_NOCTTY)
                      : -1;
};

// What a process that prints it shows on a terminal, which makes "\r\n" of line ends.
std::string OnATerminal(const std::function<void()>& print) {
  const auto [terminal, end] = Terminal();
  EXPECT_GE(end, 0);
  if (end < 0) {
    close(terminal);
    return {};
  }
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
  const auto [terminal, end] = Terminal();
  close(terminal);
  if (end < 0) GTEST_SKIP() << "there are no pseudo-terminals here";
  close(end);
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
  static int64_t* left = &testing::allocations_left;
  // From where they set it to 0 on, until the message is out, there is no memory.
  for (const std::function<int()>& run : {std::function<int()>([]() -> int {
                                            *left = 0;
                                            throw std::bad_alloc();
                                          }),
                                          std::function<int()>([]() -> int {
                                            const Error error(ErrorKind::kData, "of an error that found memory");
                                            *left = 0;
                                            throw error;
                                          })}) {
    const Command command{"fail", "", "", [run](OptionTable&) { return run; }};
    ::testing::internal::CaptureStderr();
    const int code = RunCommandLine([&] { return std::vector<Command>{command}; }, 2, arguments);
    *left = -1;
    EXPECT_EQ(code, 5);
    EXPECT_TRUE(Contains(::testing::internal::GetCapturedStderr(), "error: out of memory"));
  }
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
      {"options", "train", "--man"},
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

}  // namespace command_line_test
}  // namespace crosstalk
