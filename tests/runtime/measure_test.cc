#include "crosstalk/runtime/measure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/tensor.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace {

using Kind = TraceEvent::Kind;

std::vector<TraceEvent> OfKind(const std::vector<TraceEvent>& events, Kind kind) {
  std::vector<TraceEvent> found;
  for (const TraceEvent& event : events) {
    if (event.kind == kind) found.push_back(event);
  }
  return found;
}

void Work() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

TEST(TraceTest, MarkedEventsFollowEachOtherWithoutAGap) {
  const auto trace = std::make_shared<Trace>();
  {
    const ContextScope traced(&OpContext::trace, trace);
    const ContextScope layer = InLayer("encoder");
    Work();
    MarkTrace(Kind::kForward, "first");
    Work();
    MarkTrace(Kind::kPhase, "second");
  }
  MarkTrace(Kind::kPhase, "outside");
  const std::vector<TraceEvent> events = trace->Events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_STREQ(events[0].name, "first");
  EXPECT_EQ(*events[0].layer, "encoder");
  EXPECT_EQ(events[0].begin, 0);
  EXPECT_GE(events[0].seconds(), 0.002);
  EXPECT_EQ(events[1].begin, events[0].end);
  EXPECT_GE(events[1].seconds(), 0.002);
}

TEST(TraceTest, ALoopHasEachThreadsShare) {
  const ThreadsScope threads(2);
  const auto trace = std::make_shared<Trace>();
  std::atomic<int> begun{0};
  {
    const ContextScope traced(&OpContext::trace, trace);
    ParallelFor(2, [&](int64_t) {
      ++begun;
      while (begun < 2) std::this_thread::yield();  // one on each thread
      Work();
    });
    ParallelFor(1, [](int64_t) {});  // no loop of threads
  }
  std::vector<TraceEvent> tiles;
  // A thread adds its share after the loop has ended.
  while (tiles.size() < 2) tiles = OfKind(trace->Events(), Kind::kTiles);
  const std::vector<TraceEvent> loops = OfKind(trace->Events(), Kind::kLoop);
  ASSERT_EQ(loops.size(), 1u);
  ASSERT_EQ(tiles.size(), 2u);
  EXPECT_NE(tiles[0].thread, tiles[1].thread);
  for (const TraceEvent& share : tiles) {
    EXPECT_GE(share.seconds(), 0.002);
    EXPECT_GE(share.begin, loops[0].begin);
    EXPECT_LE(share.end, loops[0].end);
  }
}

TEST(TraceTest, AllocationsOfItsThreadHaveTheirBytes) {
  const auto trace = std::make_shared<Trace>();
  {
    const ContextScope traced(&OpContext::trace, trace);
    Tensor::Empty({3, 5}, DType::kFloat64);
    std::thread([] { Tensor::Empty({3}, DType::kFloat32); }).join();  // which has no trace
  }
  const std::vector<TraceEvent> events = trace->Events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kAllocation);
  EXPECT_EQ(events[0].bytes, 3 * 5 * 8);
}

}  // namespace

namespace measure_test {

class EnergyTest : public ::testing::Test {
 protected:
  void Write(const std::string& counter, const std::string& microjoules) const {
    dir_.Put(counter + "/energy_uj", microjoules + "\n");
    dir_.Put(counter + "/max_energy_range_uj", "1000000\n");
  }
  TempDir dir_;
};

TEST_F(EnergyTest, IsThatOfAllProcessorsAndOfNoPartTwice) {
  Write("intel-rapl:0", "500");
  Write("intel-rapl:1", "999000");
  Write("intel-rapl:0:0", "1");
  Write("dtpm", "7");
  EnergyMeter meter(dir_.path());
  EXPECT_EQ(meter.Joules(), 0);
  Write("intel-rapl:0", "250500");
  Write("intel-rapl:0:0", "100000");
  Write("intel-rapl:1", "1000");  // it wrapped around
  EXPECT_DOUBLE_EQ(meter.Joules().value(), 0.25 + 0.002);
  EXPECT_EQ(meter.Joules(), 0);
}

TEST_F(EnergyTest, IsUnknownWhereACounterCannotBeRead) {
  EXPECT_EQ(EnergyMeter(dir_ / "nothing").Joules(), std::nullopt);
  EXPECT_EQ(EnergyMeter(dir_.path()).Joules(), std::nullopt);
  Write("intel-rapl:0", "500");
  EnergyMeter meter(dir_.path());
  Write("intel-rapl:1", "none");
  EXPECT_EQ(EnergyMeter(dir_.path()).Joules(), std::nullopt);  // the sum would be that of one of two
  EXPECT_EQ(meter.Joules(), 0);
  std::filesystem::remove(dir_ / "intel-rapl:0/energy_uj");
  EXPECT_EQ(meter.Joules(), std::nullopt);
  Write("intel-rapl:0", "600");
  EXPECT_EQ(meter.Joules(), std::nullopt);  // what it missed is lost
}

}  // namespace measure_test
}  // namespace crosstalk
