// Bits of runs on several ranks over real MPI: `make test-mpi`, with tests/sessions/mpi.session. Without CROSSTALK_MPI
// they skip, for make test needs no MPI.
// CROSSTALK_MPI_KILLS=50 kills or stops each of three ranks fifty times.
#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/measure.h"
#include "crosstalk/runtime/text.h"
#include "tests/bits/published.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace mpi_train_test {

using testing::Contains;
using Words = std::vector<std::string>;

class MpiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("CROSSTALK_MPI") == nullptr) GTEST_SKIP() << "needs MPI: make test-mpi";
  }
  const TempDir dir_;
};

CommandOptions WithMpirun() {
  CommandOptions options;
  options.program = "/usr/bin/env";
  options.environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                         "OMPI_MCA_btl_vader_single_copy_mechanism=none"};
  return options;
}

Words OnRanks(int ranks, const Words& command) {
  // A signal that is to end mpirun is passed on to the ranks, except the last.
  return Joined({"timeout", "-k", "10", "240", "mpirun", "--oversubscribe", "--bind-to", "none", "-np",
                 std::to_string(ranks), CrosstalkBinary()},
                command);
}

CommandResult RunOnRanks(int ranks, const Words& command) { return RunCommand(OnRanks(ranks, command), WithMpirun()); }

// A tiny training in eight parts. `more` replaces options.
Words Sharded(const std::string& out, const Words& more = {}) {
  const Words base = {"--shards", "8", "--batch", "11", "--clip", "0.5", "--dropout", "0.1", "--out", out};
  Words words = more;
  for (size_t i = 0; i < base.size(); i += 2) {
    if (std::find(more.begin(), more.end(), base[i]) == more.end()) words.insert(words.end(), {base[i], base[i + 1]});
  }
  return TinyTrain(words);
}

std::string ModelOf(const std::string& folder) { return Sha256OfFile(folder + "/model.safetensors"); }

// The process of a rank of the run in `folder`, by its command line and environment; rank -1: any.
std::optional<pid_t> ProcessOf(int rank, const std::string& folder) {
  std::optional<pid_t> found;
  DIR* const proc = opendir("/proc");
  while (const dirent* entry = readdir(proc)) {
    const pid_t process = std::atoi(entry->d_name);
    if (process <= 0) continue;
    const std::string command = ReadBytes(StrCat("/proc/", process, "/cmdline"));
    if (command.find(folder) == std::string::npos || !command.starts_with(CrosstalkBinary())) continue;
    const std::string environment = ReadBytes(StrCat("/proc/", process, "/environ"));
    if (rank < 0 ||
        environment.find(StrCat("OMPI_COMM_WORLD_RANK=", rank, std::string(1, '\0'))) != std::string::npos) {
      found = process;
    }
  }
  closedir(proc);
  return found;
}

// mpirun may end a moment before the ranks that it has killed.
bool AllHaveEnded(const std::string& folder) {
  for (const Stopwatch watch; watch.seconds() < 5; usleep(20'000)) {
    if (!ProcessOf(-1, folder)) return true;
  }
  return false;
}

// The rows of tests/bits/published_bits.txt whose steps have parts, each on another number of ranks.
TEST_F(MpiTest, PublishedBitsDoNotDependOnTheNumberOfRanks) {
  CROSSTALK_NEEDS_SOURCE();
  int turn = 0;
  PublishedBits published;
  for (PublishedRow& row : published.rows) {
    if (row.Get("--shards").empty()) continue;
    const int ranks = std::array{2, 3, std::stoi(row.Get("--shards"))}[static_cast<size_t>(turn % 3)];
    const std::string threads = turn++ % 2 == 0 ? "1" : "3", folder = dir_ / StrCat("published-", turn);
    SCOPED_TRACE(StrCat(row.name, " on ", ranks, " ranks of ", threads, " threads"));
    const Words words = Joined({"train", "--out", folder, "--threads", threads}, row.options);
    CommandOptions pairs = WithMpirun();  // bfloat16 in tiles has other bits
    pairs.environment.push_back("CROSSTALK_BFLOAT16=widened");
    ExpectExit(RunCommand(OnRanks(ranks, words), pairs), 0, {StrCat(ranks, " ranks of ", threads, " thread")});
    EXPECT_EQ(ModelOf(folder), row.sum);
  }
  EXPECT_GE(turn, 16);
}

TEST_F(MpiTest, ARankThatIsKilledOrStoppedEndsAllAndTheRunGoesOnToTheSameBits) {
  const char* const asked = std::getenv("CROSSTALK_MPI_KILLS");
  const int kills = 3 * (asked == nullptr ? 2 : std::atoi(asked));
  const Words more = {"--steps", "400", "--checkpoint-every", "40", "--eval-every", "100"};
  const Stopwatch whole;
  ExpectExit(RunOnRanks(3, Sharded(dir_ / "whole", more)), 0);
  const double seconds = whole.seconds();
  std::mt19937 random(5);
  double slowest_kill = 0, slowest_stop = 0;
  int cut = 0, stayed = 0;
  for (int i = 0; i < kills; ++i) {
    const bool stop = i / 3 % 2 == 1;
    const int ranks = 3, victim = i % ranks;
    const std::string folder = dir_ / StrCat("run-", i);
    RunningCommand run(OnRanks(ranks, Sharded(folder, Joined(more, {"--rank-timeout", "2"}))), WithMpirun());
    usleep(static_cast<useconds_t>(1e6 * seconds * std::uniform_real_distribution<>(0.1, 1.1)(random)));
    std::optional<pid_t> process;
    for (const Stopwatch starting; !process && run.Running() && starting.seconds() < 20;) {
      process = ProcessOf(victim, folder);
    }
    const bool running = process && kill(*process, stop ? SIGSTOP : SIGKILL) == 0;
    const Stopwatch ending;
    std::optional<double> ended;  // when no rank was left
    while (run.Running() && ending.seconds() < 20) {
      if (!ended && !ProcessOf(-1, folder)) ended = ending.seconds();
      if (ended && ending.seconds() > *ended + 5) {
        // Open MPI's mpirun may lock itself up where a rank dies while it connects to it.
        ++stayed;
        run.Signal(SIGTERM);
        break;
      }
      usleep(20'000);
    }
    if (!ended) ended = ending.seconds();
    // One that was stopped on its way out, when the others had gone, has nobody who watches it.
    const bool was_at_its_end = stop && running && run.Running() && Exists(folder + "/model.safetensors");
    if (was_at_its_end) kill(*process, SIGCONT);
    const CommandResult result = run.Wait();
    if (running && !was_at_its_end && result.exit_code != 0) {
      ++cut;
      double& slowest = stop ? slowest_stop : slowest_kill;
      slowest = std::max(slowest, *ended);
      EXPECT_LT(*ended, stop ? 14 : 10) << result.errors;
      if (stop) {
        // One that was stopped before it had joined the others cannot be named.
        EXPECT_TRUE(Contains(result.errors, StrCat("rank ", victim)) || Contains(result.errors, "has not started"))
            << result.errors;
      }
    }
    EXPECT_TRUE(AllHaveEnded(folder)) << "a process is left";
    // It may have been killed before it had begun.
    const bool begun = Exists(folder + "/run.json");
    const Words again = Joined(Sharded(folder, more), begun ? Words{"--resume", "auto"} : Words());
    const int others = std::array{1, 2, 4, 5}[static_cast<size_t>(i % 4)];
    ExpectExit(others == 1 ? RunCommand(again) : RunOnRanks(others, again), 0);
    EXPECT_EQ(ModelOf(folder), ModelOf(dir_ / "whole")) << "killed " << victim << " of " << ranks << ", on " << others;
  }
  EXPECT_GT(cut, 0);
  std::printf("%d of %d runs were cut; all ended %.1f s after a kill and %.1f s after a stop at the latest", cut, kills,
              slowest_kill, slowest_stop);
  std::printf(", of %d with an mpirun that stayed\n", stayed);
}

}  // namespace mpi_train_test
}  // namespace crosstalk
