// tools/make/check_english.sh: each banned phrase is found, also across lines.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace check_english_test {

using testing::Contains;

class CheckEnglishTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* source = std::getenv("CROSSTALK_SOURCE");
    if (source == nullptr) GTEST_SKIP() << "run by `make test`, which says where the sources are";
    script_ = std::string(source) + "/tools/make/check_english.sh";
  }
  // The script reads this file too, so phrases are written with _ for a space and with ~ inside words.
  CommandResult Check(const std::string& name, std::string text) const {
    std::replace(text.begin(), text.end(), '_', ' ');
    std::erase(text, '~');
    WriteBytes(dir_ / name, text);
    return RunCommand({script_, dir_ / name}, {.program = "/bin/sh"});
  }

  const TempDir dir_;
  std::string script_;
};

TEST_F(CheckEnglishTest, EachPhraseIsFoundWithItsLineAndABetterWording) {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"The mask comes be~hind it.", "after"},
      {"It is nothing_but a sum.", "only"},
      {"A gradient is_what it needs.", "without \"what\""},
      {"The star stands_for any name.", "is, means"},
      {"It is none_of the rows that count.", "no … that"},
      {"The end of_the row of_the table of_a page.", "at most two"},
      {"It begins a~new.", "re-"},
      {"All rows but_for the last.", "except"},
      {"All rows but_where it ends.", "except where"},
      {"For who~ever reads.", "name the reader"},
      {"With this in_the_place_of that.", "instead of"}};
  for (const auto& [text, wording] : faults) {
    const CommandResult result = ExpectExit(Check("page.md", "# Title\n\n" + text + "\n"), 1);
    EXPECT_TRUE(Contains(result.output, "page.md:3:")) << text << "\n" << result.output;
    EXPECT_TRUE(Contains(result.output, wording)) << text << "\n" << result.output;
  }
}

TEST_F(CheckEnglishTest, APhraseMayContinueInTheNextLine) {
  EXPECT_TRUE(Contains(ExpectExit(Check("a.cc", "// All rows but\n// for_one.\n"), 1).output, "a.cc:2:"));
  EXPECT_TRUE(Contains(ExpectExit(Check("b.cc", "Print(\"A star stands \"\n  \"for_any\");\n"), 1).output, "b.cc:2:"));
  EXPECT_TRUE(Contains(ExpectExit(Check("c.sh", "# A gradient is\n# what_it needs.\n"), 1).output, "c.sh:2:"));
}

TEST_F(CheckEnglishTest, QuotedCodeAndTwoThingsJoinedAreNoFaults) {
  Succeeded(Check("page.md", "`be~hind` is banned.\n\nThe end of_the row and of_the table and of_the page.\n"));
}

}  // namespace check_english_test
}  // namespace crosstalk
