// `crosstalk compare` of the values of a field: the intervals of its table, and that each run is the one that train
// makes. tests/sessions/compare.session has the rest.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"
#include "tools/cli/statistics.h"

namespace crosstalk {
namespace compare_test {

using testing::Contains;

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

}  // namespace compare_test
}  // namespace crosstalk
