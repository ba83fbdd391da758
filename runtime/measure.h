// Measuring: wall time, the time of a computation by its parts (Trace), and energy.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/shape.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// Wall time since construction.

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Trace: the time of a computation by its parts. OpContext::trace is called for every operation, product,
// parallel loop and allocation under it:
//
//   const auto trace = std::make_shared<Trace>();
//   {
//     const ContextScope traced(&OpContext::trace, trace);
//     loop.Step();
//   }
//   for (const TraceEvent& event : trace->Events()) …

struct TraceEvent {
  enum class Kind {
    // These follow each other on the thread that is traced, without a gap.
    kForward,   // an op, and whatever was computed for it since the event before
    kBackward,  // an op's gradients
    kTape,      // of the graph itself
    kPhase,     // whatever else, by name: "optimizer"
    // These lie within those above.
    kProduct,     // a matrix product, or the fused attention
    kAllocation,  // of a tensor
    kLoop,        // a parallel loop, until its last tile is done
    kTiles,       // a thread's share of a loop; these run beside each other
    kMessage,     // to or from another rank, by what it holds, until this rank takes note that it has come
  };
  Kind kind = Kind::kPhase;
  const char* name = "";
  std::shared_ptr<const std::string> layer = nullptr;  // as in OpContext
  Shape shape = {};                                    // of an op's result
  double begin = 0, end = 0;                           // seconds since the trace began
  int thread = 0;                                      // of kTiles: 0 is the thread that is traced
  int64_t multiplications = 0;                         // of kProduct
  int64_t bytes =
      0;  // that an op reads and writes at least: its operands and results; that an allocation asks for; of a message

  double seconds() const { return end - begin; }
};

class Trace {
 public:
  double seconds() const { return watch_.seconds(); }
  // From any thread.
  void Add(TraceEvent event);
  // Ends an event that began where the last one of the first four kinds ended. On the thread that is traced.
  void Mark(TraceEvent event);
  // All so far, in the order of their end.
  std::vector<TraceEvent> Events() const;

 private:
  Stopwatch watch_;
  double marked_ = 0;
  mutable std::mutex mutex_;
  std::vector<TraceEvent> events_;
};

// Marks the end of an event where something is traced.
inline void MarkTrace(TraceEvent::Kind kind, const char* name) {
  if (const auto& trace = CurrentContext().trace) trace->Mark({.kind = kind, .name = name});
}

// Adds an event of the time that it lives, where something is traced.
class [[nodiscard]] TraceScope {
 public:
  explicit TraceScope(TraceEvent event) : trace_(CurrentContext().trace.get()), event_(std::move(event)) {
    if (trace_ != nullptr) event_.begin = trace_->seconds();
  }
  ~TraceScope() {
    if (trace_ == nullptr) return;
    event_.end = trace_->seconds();
    trace_->Add(std::move(event_));
  }
  TraceScope(const TraceScope&) = delete;

 private:
  Trace* trace_;
  TraceEvent event_;
};

// Energy that the processor has taken, where Linux shows its counters (powercap's intel-rapl, which AMD's have too) and
// this process may read them: mostly as root, and not in virtual machines. Of whole processors, for all processes.

class EnergyMeter {
 public:
  // `folder`: where the counters are.
  explicit EnergyMeter(const std::string& folder = "/sys/class/powercap");

  // Joules since the last call, or since the meter was made; none if there is no counter, or one cannot be read. A
  // counter wraps around after some hundred kilojoules: at 100 W each half an hour, and no more than once between two
  // calls is seen.
  std::optional<double> Joules();

 private:
  struct Counter {
    std::string file;
    int64_t range = 0;  // microjoules at which it wraps around
    int64_t last = 0;
  };
  std::vector<Counter> counters_;
};

}  // namespace crosstalk
#pragma GCC visibility pop
