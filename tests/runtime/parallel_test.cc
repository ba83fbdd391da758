#include "crosstalk/runtime/parallel.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "tests/support/messages.h"
#include "tests/support/thread_limit.h"

namespace crosstalk {
namespace parallel_test {

constexpr TileOrder kOrders[] = {TileOrder::kInOrder, TileOrder::kLocal};

class ParallelTest : public ::testing::Test {
 protected:
  ~ParallelTest() override { SetNumThreads(before_); }

 private:
  int before_ = NumThreads();
};

// TEST_P: on each of several numbers of threads.
class OnThreadsTest : public ParallelTest, public ::testing::WithParamInterface<int> {
 protected:
  OnThreadsTest() { SetNumThreads(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Threads, OnThreadsTest, ::testing::Values(1, 2, 3, 8));

TEST_P(OnThreadsTest, EveryTileRunsOnceAndNeverBesideAnotherOfItsScratch) {
  EXPECT_EQ(NumThreads(), GetParam());
  for (const int64_t tiles : {0, 1, 2, 7, 8, 9, 100, 1000}) {
    for (const TileOrder order : kOrders) {
      std::vector<std::atomic<int>> runs(tiles);
      const auto expect_runs = [&](int times) {
        for (int64_t tile = 0; tile < tiles; ++tile) ASSERT_EQ(runs[tile], times) << tile << " of " << tiles;
      };
      ParallelFor(
          tiles, [&](int64_t tile) { ++runs[tile]; }, order);
      expect_runs(1);
      for (const int slots : {1, 2, 5}) {
        std::vector<std::atomic<int>> users(slots);
        ParallelForWithScratch(tiles, slots, order, [&](int64_t task, int slot) {
          EXPECT_EQ(users[slot].fetch_add(1), 0) << slot;
          ++runs[task];
          --users[slot];
        });
      }
      expect_runs(4);
    }
  }
}

// So what tiles compute does not depend on the number of threads.
TEST_P(OnThreadsTest, RangesCoverTheCountWithTheSameCuts) {
  for (const int64_t count : {0, 1, 9, 10, 11, 100}) {
    std::vector<int64_t> begin_of(count, -1);
    ParallelForRange(count, 10, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(begin % 10, 0);
      EXPECT_EQ(end, std::min(count, begin + 10));
      for (int64_t i = begin; i < end; ++i) begin_of[i] = begin;
    });
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(begin_of[i], i / 10 * 10);
  }
}

TEST_P(OnThreadsTest, ALoneExceptionArrivesWithItsTypeAndMessage) {
  const auto fail = [](int64_t tile) {
    if (tile == 37) Fail(ErrorKind::kNumerical, "tile ", tile);
  };
  EXPECT_EQ(testing::MessageOf([&] { ParallelFor(100, fail); }, ErrorKind::kNumerical), "tile 37");
  std::atomic<int> runs{0};
  ParallelFor(100, [&](int64_t) { ++runs; });
  EXPECT_EQ(runs, 100) << "the next loop";
}

// Runs a loop that throws std::runtime_error(tile): the one of `tile` arrives.
template <typename F>
void ExpectThrown(const F& loop, const char* tile) {
  try {
    loop();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), tile) << NumThreads() << " threads";
  }
}

TEST_P(OnThreadsTest, TheLowestTilesOfManyExceptionsArrivesAndTasksGiveTheirScratchBack) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto fail = [repeat](int64_t tile) {
      if (tile < 5) return;
      // The lowest one throws last in one round and first in the next.
      if ((tile == 5) == (repeat % 2 == 0)) std::this_thread::sleep_for(std::chrono::microseconds(300));
      throw std::runtime_error(std::to_string(tile));
    };
    const TileOrder order = kOrders[repeat / 2 % 2];
    ExpectThrown([&] { ParallelFor(64, fail, order); }, "5");
    ExpectThrown([&] { ParallelForWithScratch(100, 2, order, [&](int64_t task, int) { fail(task); }); }, "5");
    ExpectThrown([&] { ParallelFor(4, [&](int64_t) { ParallelFor(9, fail); }); }, "5");
  }
}

TEST_F(ParallelTest, NestedLoopsRunOnTheThreadThatCalls) {
  SetNumThreads(3);
  const int levels_before = omp_get_max_active_levels();
  omp_set_max_active_levels(4);  // a host that allows nested regions
  std::vector<std::atomic<int>> runs(6 * 7);
  ParallelFor(6, [&](int64_t outer) {
    const auto caller = std::this_thread::get_id();
    ParallelFor(7, [&](int64_t inner) {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      ++runs[outer * 7 + inner];
    });
  });
  omp_set_max_active_levels(levels_before);
  for (const auto& count : runs) EXPECT_EQ(count, 1);
}

TEST_F(ParallelTest, NoMoreThreadsWorkThanWereSet) {
  SetNumThreads(2);
  std::mutex mutex;
  std::set<std::thread::id> ids;
  ParallelFor(200, [&](int64_t) {
    std::lock_guard<std::mutex> lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_LE(ids.size(), 2u);
}

// Plain memory, written by one thread and read by another: ThreadSanitizer checks what orders the two.
TEST_F(ParallelTest, LoopsTakeNoMoreThreadsThanTheirWorkPaysFor) {
  SetNumThreads(4);
  {
    const LoopWork some(9000);
    EXPECT_EQ(ThreadsOfLoop(), 2);
    {
      const LoopWork much_within_some(1e9);
      EXPECT_EQ(ThreadsOfLoop(), 2);
      const LoopWork little(0);
      EXPECT_EQ(ThreadsOfLoop(), 1);
    }
    EXPECT_EQ(ThreadsOfLoop(), 2);
  }
  EXPECT_EQ(ThreadsOfLoop(), 4);
  // Two ranges for each thread: three are the caller's own.
  const auto caller = std::this_thread::get_id();
  ParallelForRange(3, 1, [&](int64_t, int64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
}

TEST_F(ParallelTest, TheCallerSeesWhatTilesWroteAndTilesWhatTheCallerWrote) {
  SetNumThreads(2);
  int in[2], out[2];
  for (int repeat = 0; repeat < 300; ++repeat) {
    in[0] = in[1] = repeat;
    std::atomic<int> begun{0};
    ParallelFor(2, [&](int64_t tile) {
      begun.fetch_add(1, std::memory_order_relaxed);  // each on a thread of its own, and nothing ordered by it
      while (begun.load(std::memory_order_relaxed) < 2) std::this_thread::yield();
      out[tile] = in[tile] + 1;
    });
    ASSERT_EQ(out[0] + out[1], 2 * (repeat + 1));
  }
}

TEST_F(ParallelTest, CallersDoNotWaitForEachOther) {
  SetNumThreads(2);
  std::atomic<bool> release{false};
  std::atomic<int> begun{0};
  std::thread stuck([&] {  // holds itself and the other thread
    ParallelFor(2, [&](int64_t) {
      ++begun;
      while (!release) std::this_thread::yield();
    });
  });
  while (begun < 2) std::this_thread::yield();
  std::atomic<int> runs{0};
  ParallelFor(100, [&](int64_t) { ++runs; });
  EXPECT_EQ(runs, 100);
  release = true;
  stuck.join();
}

TEST_F(ParallelTest, ManyCallersAtOnceGetAllTheirTiles) {
  SetNumThreads(3);
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 200; ++repeat) {
        std::vector<std::atomic<int>> runs(17);
        ParallelFor(17, [&](int64_t tile) { ++runs[tile]; });
        for (const auto& count : runs) wrong += count != 1;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ParallelTest, AForkedProcessGoesOn) {
  SetNumThreads(3);
  std::atomic<int> runs{0};
  ParallelFor(50, [&](int64_t) { ++runs; });
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // of the threads only the one that forked
    runs = 0;
    ParallelFor(50, [&](int64_t) { ++runs; });
    _exit(runs == 50 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_P(OnThreadsTest, AnOrderedReductionAddsInTheOrderOfTheTiles) {
  OrderedReduction order(2);
  std::vector<std::vector<int64_t>> added(2);
  ParallelFor(200, [&](int64_t tile) {
    const int64_t sum = tile % 2;
    order.WaitFor(sum, tile / 2);
    added[sum].push_back(tile);
    order.Done(sum);
  });
  for (int64_t tile = 0; tile < 200; ++tile) ASSERT_EQ(added[tile % 2][tile / 2], tile);
}

TEST_F(ParallelTest, AThreadThatTheSystemDoesNotGiveIsAResourceError) {
  // More than any test here asks for, so that the pool has to grow.
  constexpr int kWanted = 21;
  SetNumThreads(kWanted);
  std::atomic<int> runs{0};
  const auto loop = [&] { ParallelFor(100, [&](int64_t) { ++runs; }); };
  {
    const testing::ThreadLimitScope two_more(2);
    testing::ExpectError(loop, ErrorKind::kResource, {"threads: the system gave ", " of 21 (", "ask for fewer"});
    EXPECT_EQ(runs, 0);
    SetNumThreads(2);
    loop();
    EXPECT_EQ(runs, 100);
  }
  SetNumThreads(kWanted);
  loop();
  EXPECT_EQ(runs, 200);
}

TEST_F(ParallelTest, TheHostsOpenMpSettingsStayAndImpossibleNumbersAreUsageErrors) {
  const int before = omp_get_max_threads();
  SetNumThreads(before + 3);
  ParallelFor(100, [](int64_t) {});
  EXPECT_EQ(omp_get_max_threads(), before);
  for (int threads : {0, -1, 4097}) {
    EXPECT_EQ(testing::MessageOf([&] { SetNumThreads(threads); }, ErrorKind::kUsage),
              "the number of threads must be 1 … 4096, not " + std::to_string(threads));
  }
}

}  // namespace parallel_test
}  // namespace crosstalk
