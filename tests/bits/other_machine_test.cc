// Runs and folders that go from this kind of processor to another and back. CROSSTALK_OTHER_COMMAND is the command of
// the other: under `make test-arm`, where this program is one of ARM and emulated, that of x86.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/runtime/checksum.h"
#include "tests/bits/published.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace other_machine_test {

using Words = std::vector<std::string>;

// The command of this machine and the other's.
std::string Here() { return CrosstalkBinary(); }
std::string There() { return std::getenv("CROSSTALK_OTHER_COMMAND"); }

std::string On(const std::string& command, const Words& words) {
  return Succeeded(RunCommand(words, {.program = command})).output;
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
    On(There(), Joined({"train", "--out", whole}, row.options));
    for (const auto& machines : {std::vector{Here(), There(), Here()}, {There(), Here(), There()}}) {
      const std::string run = whole + (machines[0] == Here() ? "-from-here" : "-from-there");
      const Words begin = WithOptions(row.options, {{"--steps", row.Get("--continued-at")},
                                                    {"--continued-at", ""},
                                                    {"--checkpoint-every", "1"},
                                                    {"--keep", "9"}});
      On(machines[0], Joined({"train", "--out", run}, begin));
      On(machines[1], {"train", "--out", run, "--resume", "auto", "--steps", row.Get("--steps")});
      const CheckpointStore store(run + "/checkpoints");
      ASSERT_EQ(store.Steps(), (std::vector<int64_t>{1, 2, 3, 4}));
      std::filesystem::remove_all(store.PathOf(4));
      std::filesystem::remove(run + "/model.safetensors");
      On(machines[2], {"train", "--out", run, "--resume", "auto"});
      EXPECT_EQ(Sha256OfFile(run + "/model.safetensors"), Sha256OfFile(whole + "/model.safetensors"));
    }
  }
}

// What a machine says of the other's run, and makes of it, the other says and makes.
TEST_F(OtherMachineTest, ReadsTheFoldersOfThisOneAndThisOneIts) {
  for (const std::string model : {"t5", "bert", "albert"}) {
    for (const std::string& trained : {Here(), There()}) {
      SCOPED_TRACE(StrCat(model, ", trained by ", trained));
      const TempDir dir;
      On(trained, TinyTrain({"--model", model, "--steps", "2", "--out", dir / "run"}));
      std::map<std::string, std::string> said;
      for (const std::string& machine : {Here(), There()}) {
        const std::string own = dir / (machine == Here() ? "here" : "there");
        said[own] = On(machine, {"eval", "--run", dir / "run", "--json", "--eval-batches", "1"});
        On(machine, {"export", dir / "run", "--out", own + "/export", "--with-extensions"});
        // What this one has exported: both read the same folder.
        On(machine, {"import", dir / "here/export", "--out", own + "/import"});
      }
      EXPECT_EQ(said.begin()->second, said.rbegin()->second);
      Succeeded(RunCommand({"-r", dir / "here", dir / "there"}, {.program = "/usr/bin/diff"}));
    }
  }
}

}  // namespace other_machine_test
}  // namespace crosstalk
