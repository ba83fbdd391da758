// Runs and folders that go from this kind of processor to another and back. CROSSTALK_OTHER_COMMAND is the command of
// the other: under `make test-arm`, where this program is one of ARM and emulated, that of x86.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/checksum.h"
#include "tests/bits/published.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace other_machine_test {

using Words = std::vector<std::string>;

// The command of this machine and the other's.
std::string Here() { return CrosstalkBinary(); }
std::string There() { return std::getenv("CROSSTALK_OTHER_COMMAND"); }

std::string On(const std::string& command, const Words& words) {
  return Succeeded(RunCommand(words, {.program = command})).output;
}

// `options` with others' values in place of their own, and without those of value "".
Words With(Words options, const std::vector<std::pair<std::string, std::string>>& others) {
  for (const auto& [option, value] : others) {
    const auto found = std::find(options.begin(), options.end(), option);
    if (found != options.end()) options.erase(found, found + 2);
    if (!value.empty()) options.insert(options.end(), {option, value});
  }
  return options;
}

class OtherMachineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("CROSSTALK_OTHER_COMMAND") == nullptr)
      GTEST_SKIP() << "run by `make test-arm`, which has two machines";
    std::filesystem::current_path(std::getenv("CROSSTALK_SOURCE"));
  }

  const TempDir dir_;
};

// Planned for two steps on the first machine, given two more on the second, which is killed after one of them, and
// finished on the third.
TEST_F(OtherMachineTest, ARunThatGoesThereAndBackEndsWithTheBitsOfOneInOnePiece) {
  for (const PublishedRow& row : PublishedBits().rows) {
    if (row.Get("--continued-at").empty()) continue;  // one of each model, with dropout
    SCOPED_TRACE(row.name);
    const std::string whole = dir_ / row.Get("--model");
    On(Here(), Joined({"train", "--out", whole}, row.options));
    for (const auto& machines : {std::vector{Here(), There(), Here()}, {There(), Here(), There()}}) {
      const std::string run = whole + (machines[0] == Here() ? "-from-here" : "-from-there");
      const Words begin = With(row.options, {{"--steps", row.Get("--continued-at")},
                                             {"--continued-at", ""},
                                             {"--checkpoint-every", "1"},
                                             {"--keep", "9"}});
      On(machines[0], Joined({"train", "--out", run}, begin));
      On(machines[1], {"train", "--out", run, "--resume", "auto", "--steps", row.Get("--steps")});
      const CheckpointStore store(run + "/checkpoints");
      ASSERT_EQ(store.Steps(), (std::vector<int64_t>{0, 1, 2, 3, 4}));
      std::filesystem::remove_all(store.PathOf(4));
      std::filesystem::remove(run + "/model.safetensors");
      On(machines[2], {"train", "--out", run, "--resume", "auto"});
      EXPECT_EQ(Sha256OfFile(run + "/model.safetensors"), Sha256OfFile(whole + "/model.safetensors"));
    }
  }
}

// What a machine says of another's run, and makes of it for others to read, is what that one says and makes.
TEST_F(OtherMachineTest, ReadsTheFoldersOfThisOneAndThisOneIts) {
  const auto same = [&](const std::string& a, const std::string& b) {
    Succeeded(RunCommand({"-r", dir_ / a, dir_ / b}, {.program = "/usr/bin/diff"}));
  };
  for (const std::string model : {"t5", "bert", "albert"}) {
    SCOPED_TRACE(model);
    for (const std::string from : {"here", "there"}) {
      const auto path = [&](const std::string& name) { return dir_ / StrCat(model, name, from); };
      const std::string machine = from == "here" ? Here() : There(), other = from == "here" ? There() : Here();
      On(machine, Joined({"train", "--out", path("run")},
                         {"--model", model, "--tokenizer",    "bytes", "--d-model", "36", "--heads",        "4",
                          "--d-ff",  "75",  "--layers",       "1",     "--batch",   "4",  "--input-length", "29",
                          "--steps", "2",   "--eval-batches", "1"}));
      On(other, {"export", path("run"), "--out", path("export"), "--with-extensions"});
      On(machine, {"import", path("export"), "--out", path("import")});
      EXPECT_EQ(On(machine, {"eval", "--run", path("import"), "--json", "--eval-batches", "1"}),
                On(other, {"eval", "--run", path("import"), "--json", "--eval-batches", "1"}));
    }
    same(model + "exporthere", model + "exportthere");
  }
}

}  // namespace other_machine_test
}  // namespace crosstalk
