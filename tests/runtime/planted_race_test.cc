// Built where ThreadSanitizer watches: races that it must find, so that one which sees nothing is noticed. Each runs in
// a process of its own, which the sanitizer ends with status 66.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "crosstalk/runtime/parallel.h"

namespace crosstalk {
namespace {

// Returns in both threads that call it, without ordering what they do before or after.
class Meeting {
 public:
  void Arrive() {
    arrived_.fetch_add(1, std::memory_order_relaxed);
    while (arrived_.load(std::memory_order_relaxed) < 2) std::this_thread::yield();
  }

 private:
  std::atomic<int> arrived_{0};
};

class PlantedRaceTest : public ::testing::Test {
 protected:
  PlantedRaceTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void RaceOfThreads() {
  int shared = 0;
  Meeting meeting;
  std::thread other([&] {
    meeting.Arrive();
    ++shared;
  });
  meeting.Arrive();
  ++shared;
  other.join();
  std::exit(shared > 2);
}

// Two tiles that add to the same sum. The pool's own synchronisation must not hide it.
void RaceOfTiles() {
  SetNumThreads(2);
  double sum = 0;
  Meeting meeting;
  ParallelFor(2, [&](int64_t tile) {
    meeting.Arrive();
    sum += static_cast<double>(tile);
  });
  std::exit(sum > 2);
}

TEST_F(PlantedRaceTest, OfTwoThreadsIsFound) {
  EXPECT_EXIT(RaceOfThreads(), ::testing::ExitedWithCode(66), "data race");
}

TEST_F(PlantedRaceTest, OfTwoTilesIsFound) { EXPECT_EXIT(RaceOfTiles(), ::testing::ExitedWithCode(66), "data race"); }

}  // namespace
}  // namespace crosstalk
