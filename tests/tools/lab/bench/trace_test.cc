// The sums that `crosstalk trace` makes of events. tests/sessions/bench.session has the command.
#include "tools/lab/bench/trace.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "crosstalk/models/training/ranks/reducer.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace trace_test {

using Kind = TraceEvent::Kind;
using testing::Contains;

// Two ops of 10 and 30 ms on two threads. In the second are a product of 20 ms and a loop of as long, in which the
// other thread works for half of it.
std::vector<TraceEvent> SomeEvents() {
  return {{.kind = Kind::kAllocation, .begin = 0.001, .end = 0.002, .bytes = 64},
          {.kind = Kind::kForward, .name = "relu", .shape = {3, 5}, .begin = 0, .end = 0.010},
          {.kind = Kind::kTiles, .begin = 0.010, .end = 0.030, .thread = 0},
          {.kind = Kind::kTiles, .begin = 0.015, .end = 0.025, .thread = 1},
          {.kind = Kind::kLoop, .begin = 0.010, .end = 0.030},
          {.kind = Kind::kProduct, .name = "product", .begin = 0.010, .end = 0.030, .multiplications = 1'000'000},
          {.kind = Kind::kBackward, .name = "matmul", .shape = {7, 5}, .begin = 0.010, .end = 0.040, .bytes = 200}};
}

TEST(StepTraceTest, SharesAddUp) {
  const StepTrace trace = MakeStepTrace(SomeEvents(), 2, 0.5);
  EXPECT_DOUBLE_EQ(trace.seconds, 0.040);
  EXPECT_EQ(trace.multiplications, 1'000'000);
  EXPECT_DOUBLE_EQ(trace.ShareOfPeak(), 2e6 / 0.040 / 0.5e9);
  EXPECT_DOUBLE_EQ(trace.ShareBusy(), (0.020 + 0.020 + 0.010) / 0.080);
  EXPECT_NEAR(trace.ShareWaiting(), 0.010 / 0.080, 1e-12);
  EXPECT_DOUBLE_EQ(trace.ShareAlone(), 0.020 / 0.080);
  EXPECT_EQ(trace.allocations, 1);
  ASSERT_EQ(trace.ops.size(), 2u);
  EXPECT_DOUBLE_EQ(trace.ops[0].allocation_seconds, 0.001);
  EXPECT_DOUBLE_EQ(trace.ops[1].product_seconds, 0.020);
  EXPECT_DOUBLE_EQ(trace.ops[1].busy_seconds, 0.040);
}

TEST(StepTraceTest, GroupsAreSortedByTheirTime) {
  std::vector<TraceEvent> events = SomeEvents();
  events.push_back({.kind = Kind::kForward, .name = "relu", .shape = {7, 5}, .begin = 0.040, .end = 0.090});
  const StepTrace trace = MakeStepTrace(events, 2, 0.5);
  const std::vector<OpGroup> names = GroupOps(trace, GroupBy::kName);
  ASSERT_EQ(names.size(), 2u);
  EXPECT_EQ(names[0].name, "relu");
  EXPECT_EQ(names[0].count, 2);
  EXPECT_DOUBLE_EQ(names[0].seconds, 0.060);
  const std::vector<OpGroup> shapes = GroupOps(trace, GroupBy::kNameAndShape);
  ASSERT_EQ(shapes.size(), 3u);
  EXPECT_EQ(shapes[0].shape, "[7, 5]");
  EXPECT_EQ(shapes[1].kind, Kind::kBackward);
  EXPECT_EQ(shapes[1].bytes, 200);
  EXPECT_EQ(ProductShareText(trace, shapes[1]), "20.0 %");  // 2 MFLOP in 20 ms, of 0.5 GFLOP/s
  EXPECT_EQ(ProductShareText(trace, shapes[0]), "");
}

// Under way from 5 to 20 and from 15 to 40 ms of a step that waits for the last of them from 30 ms on.
TEST(StepTraceTest, MessagesAreHiddenUntilTheStepWaitsForThem) {
  std::vector<TraceEvent> events = SomeEvents();
  events.insert(events.begin() + 4, {.kind = Kind::kMessage, .name = "one", .begin = 0.005, .end = 0.020, .bytes = 64});
  events.back().end = 0.030;
  events.push_back({.kind = Kind::kMessage, .name = "other", .begin = 0.015, .end = 0.040, .bytes = 36});
  events.push_back({.kind = Kind::kPhase, .name = kExchangeOfGradients, .begin = 0.030, .end = 0.040});
  const StepTrace trace = MakeStepTrace(events, 2, 0.5);
  EXPECT_DOUBLE_EQ(trace.MessageSeconds(), 0.035);
  EXPECT_DOUBLE_EQ(trace.HiddenSeconds(), 0.025);
  EXPECT_EQ(MessagesText(trace), "35.0 ms, 100 bytes, 71.4 % of the time overlapped with backward");
  EXPECT_TRUE(Contains(TracePage(trace, "a model"), "<title>other: 36 bytes, 25.00 ms</title>"));
  EXPECT_FALSE(Contains(TraceText(MakeStepTrace(SomeEvents(), 2, 0.5)), "other ranks"));
}

TEST(StepTraceTest, ThePageHasABarForEachOperation) {
  const std::string page = TracePage(MakeStepTrace(SomeEvents(), 2, 0.5), "a <model>");
  EXPECT_TRUE(Contains(page, "A step of a &lt;model&gt;"));
  EXPECT_TRUE(Contains(page, "<title>relu [3, 5] forward: 10.00 ms</title>"));
  EXPECT_TRUE(Contains(page, "<title>matmul [7, 5] backward: 30.00 ms, 2.00 MFLOP, 13.3 % of the peak, 200 bytes<"));
}

}  // namespace trace_test
}  // namespace crosstalk
