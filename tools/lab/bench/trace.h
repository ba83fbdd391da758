// StepTrace: what the time of one training step went to, from the events of its trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/measure.h"

namespace crosstalk {

// An event of those that follow each other without a gap, and what of it went to products.
struct TracedOp {
  TraceEvent event;
  double product_seconds = 0;  // of matrix products and the fused attention
  int64_t multiplications = 0;
  double allocation_seconds = 0;
  double busy_seconds = 0;  // of all threads together
};

// Operations of one name in one direction, of one shape or of all.
struct OpGroup {
  std::string name;   // "rms_norm"
  std::string shape;  // "[768, 512]", of the results; empty: of all shapes
  TraceEvent::Kind kind = TraceEvent::Kind::kPhase;
  int64_t count = 0;
  double seconds = 0, product_seconds = 0, busy_seconds = 0;
  int64_t multiplications = 0, bytes = 0;
};

struct StepTrace {
  double seconds = 0;
  int threads = 1;
  double peak_gflops = 0;  // of all threads, in the step's precision
  std::vector<TracedOp> ops;
  std::vector<TraceEvent> products;
  std::vector<TraceEvent> tiles;  // what threads computed beside each other
  std::vector<TraceEvent> messages;
  double loop_seconds = 0;  // of loops, which more than one thread may work on
  double tile_seconds = 0;  // of all threads in them
  int64_t allocations = 0;
  int64_t multiplications = 0;

  double Flop() const { return 2 * static_cast<double>(multiplications); }
  // How long gradients were under way between ranks, and how much of that the step did not wait for. 0: none were.
  double MessageSeconds() const;
  double HiddenSeconds() const;

  double ShareOfPeak() const { return Flop() / seconds / (1e9 * peak_gflops); }
  // The shares of threads · seconds in which threads compute; wait while a loop is under way, for it to begin or to
  // end; and have nothing to do, as one thread computes by itself. Their sum is 1.
  double ShareBusy() const { return (seconds - loop_seconds + tile_seconds) / (threads * seconds); }
  double ShareWaiting() const { return (threads * loop_seconds - tile_seconds) / (threads * seconds); }
  double ShareAlone() const { return (threads - 1) * (seconds - loop_seconds) / (threads * seconds); }
};

// `events` as Trace::Events() gives them.
StepTrace MakeStepTrace(const std::vector<TraceEvent>& events, int threads, double peak_gflops);

enum class GroupBy { kName, kNameAndShape };
// The one that took longest first.
std::vector<OpGroup> GroupOps(const StepTrace& trace, GroupBy by);

// "forward", "backward", "tape", "step".
const char* Name(TraceEvent::Kind kind);

// Sums, groups and every event.
Json ToJson(const StepTrace& trace);

// A step's trace as a table of text.

std::string TraceText(const StepTrace& trace);

// "46.2 ms, 4.03 GFLOP, 39.0 % of the peak".
std::string TraceSummary(const StepTrace& trace);
// The gradients of other ranks, if any: "38.0 ms, 42.7 MB, 97.1 % of the time overlapped with
// backward".
std::string MessagesText(const StepTrace& trace);
// "12.3 %".
std::string PercentText(double share);
// The share of the peak that the group's products reach in their time: "81.2 %"; empty without products.
std::string ProductShareText(const StepTrace& trace, const OpGroup& group);

// A step's trace as a page: one bar an operation, in the order of time, and below it what each thread does.

// `subject`: "t5, talking, 16 heads"; plain text.
std::string TracePage(const StepTrace& trace, const std::string& subject);

}  // namespace crosstalk
