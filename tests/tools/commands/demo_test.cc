// `crosstalk demo`, of a step: what it says at its end, its page, and that it goes on.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace demo_test {

using testing::Contains;

TEST(DemoTest, ShowsTheGainAnExampleAndWhatMixingDoes) {
  const TempDir dir;
  const std::string out = dir / "demo";
  const CommandResult first = RunCommand({"demo", "--steps", "2", "--out", out});
  Succeeded(first);
  for (const char* part :
       {"[1/2] multi-head\n", "[2/2] talking-heads\n", "held-out ln(PPL): multi-head ", ", entropy bound 0.4",
        "it goes on with held-out text", "what mixing does: The heads began separate; now ",
        " of what they say crosses to others. Matrices of equal entries would have 97\u00A0%.",
        "report.html' in a browser"}) {
    EXPECT_TRUE(Contains(first.errors, part)) << part << "\nin\n" << first.errors;
  }
  const std::string page = ReadBytes(out + "/report.html");
  for (const char* part : {"What mixing does", "side-by-side", "J of head ", "→ U of head ", "multi-head</td>",
                           "talking-heads</td>", "P_l·P_w"}) {
    EXPECT_TRUE(Contains(page, part)) << part;
  }

  // The same command finds all done, and says the same.
  const std::string before = ReadBytes(out + "/talking-heads/model.safetensors");
  const CommandResult again = RunCommand({"demo", "--steps", "2", "--out", out});
  Succeeded(again);
  const auto end = [](const std::string& text) { return text.substr(text.find("held-out ln(PPL): multi-head")); };
  EXPECT_EQ(end(again.errors), end(first.errors));
  EXPECT_EQ(ReadBytes(out + "/talking-heads/model.safetensors"), before);
  EXPECT_EQ(ReadBytes(out + "/report.html"), page);
}

// The rest of the report is there all the same.
TEST(DemoTest, AModelWithoutRoomForASentenceHasNoMaps) {
  const TempDir dir;
  Succeeded(
      RunCommand(TinyTrain({"--model", "lm", "--positions", "learned", "--input-length", "8", "--out", dir / "run"})));
  const std::string page = ReadBytes(dir / "run/report.html");
  EXPECT_TRUE(Contains(page, "No maps of a sentence: "));
  EXPECT_TRUE(Contains(page, "P_l·P_w at the end"));
}

TEST(DemoTest, AFolderOfOtherThingsIsLeftAlone) {
  const TempDir dir;
  WriteBytes(dir / "letter.txt", "mine");
  const CommandResult refused = RunCommand({"demo", "--steps", "1", "--out", dir.path()});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(Contains(refused.errors, "letter.txt")) << refused.errors;
  EXPECT_EQ(ReadBytes(dir / "letter.txt"), "mine");
}

}  // namespace demo_test
}  // namespace crosstalk
