// `crosstalk options --completion` and `--man`: shells and man read what they print. Completion offers every option of
// the tables.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tools/cli/command.h"

namespace crosstalk {
namespace completion_test {

using testing::Contains;
namespace fs = std::filesystem;

class CompletionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string shell : {"bash", "zsh", "fish"}) {
      WriteBytes(dir_ / shell, Succeeded(RunCommand({"options", "--completion", shell})).output);
    }
    fs::create_directory(dir_ / "runs of mine");
    WriteBytes(dir_ / "rules.txt", "");
  }
  static bool There(const std::string& program) {
    return RunCommand({"-c", "command -v " + program}, {.program = "/bin/sh"}).exit_code == 0;
  }
  static CommandResult Bash(const std::vector<std::string>& arguments) {
    return RunCommand(arguments, {.program = "/bin/bash"});
  }
  // What bash completes the last of `words` with, a line each, in a folder with "runs of mine" and rules.txt.
  std::string InBash(const std::vector<std::string>& words) {
    std::vector<std::string> arguments = {
        "-c",
        "cd \"$1\" && source ./bash && COMP_WORDS=(\"${@:2}\") COMP_CWORD=$(($# - 2)) && { _crosstalk; "
        "printf '%s\\n' \"${COMPREPLY[@]}\"; }",
        "bash", dir_.path(), "crosstalk"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    const CommandResult result = Succeeded(Bash(arguments));
    EXPECT_EQ(result.errors, "");
    return result.output;
  }

  const TempDir dir_;
};

TEST_F(CompletionTest, BashCompletesSubcommandsOptionsChoicesAndPaths) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"tra"}, "train\ntrace\n"},
      {{"--v"}, "--version\n"},
      {{"help", "compa"}, "compare\n"},
      {{"train", "--atten"}, "--attention\n--attention-scale\n"},
      {{"train", "--dry-run", "--atten"}, "--attention\n--attention-scale\n"},
      {{"train", "--attention", "ta"}, "talking\n"},
      {{"train", "--attention", "=", "ta"}, "talking\n"},
      {{"train", "--model", "="}, "t5\nlm\nbert\nalbert\n"},
      {{"compare", "--kinds", "talking,multi"}, "talking,multihead\n"},
      {{"train", "--data", "ru"}, "rules.txt\nruns of mine\n"},
      {{"train", "--out", "ru"}, "runs of mine\n"},
      {{"train", "--config", "rul"}, "rules.txt\n"},
      {{"train", "--steps", ""}, "\n"},
      {{"report", "run"}, "runs of mine\n"},
      {{"report", "--sam"}, "--samples\n"},
      {{"attend", "rules.txt", "--precision", "f"}, "fp32\nfloat\n"},
      {{"attend", "rules.txt", "-o", "rul"}, "rules.txt\n"},
      {{"options", "--completion", ""}, "bash\nzsh\nfish\n"},
      {{"nothing", ""}, "\n"}};
  for (const auto& [words, expected] : cases) {
    std::string lines = InBash(words);
    if (words.back() == "ru" && lines == "runs of mine\nrules.txt\n") lines = expected;  // in the folder's order
    EXPECT_EQ(lines, expected) << words[0] << " … " << words.back();
  }
}

// And nothing that is refused.
TEST_F(CompletionTest, BashOffersEveryOptionOfEverySubcommand) {
  for (const Command& command : AllCommands()) {
    const std::string offered = "\n" + InBash({command.name, "--"});
    OptionTable options;
    command.declare(options);
    int count = 2;  // --config and --help
    for (const OptionTable::Row& row : options.Rows()) {
      for (const std::string& name : row.names) {
        if (!name.starts_with("--")) continue;
        EXPECT_TRUE(Contains(offered, "\n" + name + "\n")) << command.name << " " << name;
        ++count;
      }
    }
    EXPECT_EQ(std::count(offered.begin(), offered.end(), '\n'), count + 1) << command.name;
  }
}

TEST_F(CompletionTest, ZshReadsItsScript) {
  if (!There("zsh")) GTEST_SKIP() << "there is no zsh";
  Succeeded(RunCommand({"-n", dir_ / "zsh"}, {.program = "/bin/zsh"}));
}

TEST_F(CompletionTest, FishCompletes) {
  if (!There("fish")) GTEST_SKIP() << "there is no fish";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"tra", "trace\ntrain\n"},
      {"train --attention ta", "talking\n"},
      {"train --atten", "--attention\n--attention-scale\n"},
      {"compare --kinds talking,multi", "talking,multihead\n"},
      {"train --data rul", "rules.txt\n"},
      {"train --steps ", ""},
      {"report rul", "rules.txt\n"},
      {"options tra", "trace\ntrain\n"}};
  for (const auto& [line, expected] : cases) {
    const std::string script = "cd " + dir_.path() + "; source ./fish; complete -C 'crosstalk " + line +
                               "' | string replace -r '\t.*' ''; true";
    EXPECT_EQ(
        Succeeded(RunCommand({"-c", script}, {.program = "/usr/bin/fish", .environment = {"HOME=" + dir_.path()}}))
            .output,
        expected)
        << line;
  }
}

TEST_F(CompletionTest, EachSubcommandHasAPageOfTheManualWithAllItsOptions) {
  std::vector<std::vector<std::string>> pages = {{"options", "--man"}};
  for (const Command& command : AllCommands()) pages.push_back({"options", command.name, "--man"});
  const bool man = There("man") && There("groff");
  for (const std::vector<std::string>& arguments : pages) {
    const std::string page = Succeeded(RunCommand(arguments)).output;
    const std::string name = arguments.size() == 3 ? "crosstalk\\-" + arguments[1] : "crosstalk";
    EXPECT_TRUE(Contains(page, ".SH NAME\n" + name + " \\- ")) << page.substr(0, 200);
    if (!man) continue;
    WriteBytes(dir_ / "page.1", page);
    const CommandResult shown =
        Succeeded(RunCommand({"-c", "man --warnings -E UTF-8 -l -Tutf8 \"$0\" | sed 's/.\\x08//g'", dir_ / "page.1"},
                             {.program = "/bin/sh", .environment = {"LC_ALL=C.UTF-8", "MANWIDTH=200"}}));
    EXPECT_EQ(shown.errors, "") << name;
    if (arguments.size() != 3) continue;
    for (const Command& command : AllCommands()) {
      if (command.name != arguments[1]) continue;
      OptionTable options;
      command.declare(options);
      for (const OptionTable::Row& row : options.Rows()) {
        EXPECT_TRUE(Contains(shown.output, "       " + row.names[0]) || row.positional() || !row.of.empty())
            << name << " " << row.names[0];
      }
    }
  }
}

TEST_F(CompletionTest, WhatIsNotOneOfTheirsIsRefused) {
  ExpectExit(RunCommand({"options", "--completion", "csh"}), 2, {"--completion: \"csh\" is none of bash, zsh, fish"});
  ExpectExit(RunCommand({"options", "train", "--completion", "bash"}), 2, {"--completion is of all subcommands"});
  ExpectExit(RunCommand({"options", "--man", "--markdown"}), 2, {"give one of them"});
  ExpectExit(RunCommand({"options", "tarin", "--man"}), 2, {"did you mean \"train\"?"});
}

}  // namespace completion_test
}  // namespace crosstalk
