// Built where ThreadSanitizer watches: races that it must find, so that one which sees nothing is noticed. Each runs in
// a process of its own, which the sanitizer ends with status 66.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include "crosstalk/runtime/parallel.h"

namespace crosstalk {
namespace planted_race_test {

// Two threads, each in its turn once both are there. Nothing orders them that the sanitizer sees: of accesses at the
// very same time it can miss both.
class Turns {
 public:
  void Await(int64_t turn) {
    arrived_.fetch_add(1, std::memory_order_relaxed);
    while (arrived_.load(std::memory_order_relaxed) < 2 || ended_.load(std::memory_order_relaxed) < turn) {
      std::this_thread::yield();
    }
  }
  void End() { ended_.fetch_add(1, std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> arrived_{0}, ended_{0};
};

class PlantedRaceTest : public ::testing::Test {
 protected:
  PlantedRaceTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void RaceOfThreads() {
  int shared = 0;
  Turns turns;
  std::thread other([&] {
    turns.Await(0);
    ++shared;
    turns.End();
  });
  turns.Await(1);
  ++shared;
  other.join();
  std::exit(shared > 2);
}

// Two tiles that add to the same sum. The pool's own synchronisation must not hide it.
void RaceOfTiles() {
  SetNumThreads(2);
  double sum = 0;
  Turns turns;
  ParallelFor(2, [&](int64_t tile) {
    turns.Await(tile);
    sum += static_cast<double>(tile);
    turns.End();
  });
  std::exit(sum > 2);
}

TEST_F(PlantedRaceTest, BetweenTwoThreadsIsFound) {
  EXPECT_EXIT(RaceOfThreads(), ::testing::ExitedWithCode(66), "data race");
}

TEST_F(PlantedRaceTest, BetweenTwoTilesIsFound) {
  EXPECT_EXIT(RaceOfTiles(), ::testing::ExitedWithCode(66), "data race");
}

}  // namespace planted_race_test
}  // namespace crosstalk
