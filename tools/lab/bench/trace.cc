#include "tools/lab/bench/trace.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "crosstalk/models/training/ranks/reducer.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {

namespace {

using Kind = TraceEvent::Kind;

// How long at least one of these was under way before `until`.
double SecondsOfAny(std::vector<TraceEvent> events, double until) {
  std::sort(events.begin(), events.end(), [](const TraceEvent& a, const TraceEvent& b) { return a.begin < b.begin; });
  double seconds = 0, covered = 0;
  for (const TraceEvent& event : events) {
    const double end = std::min(event.end, until);
    seconds += std::max(0.0, end - std::max(event.begin, covered));
    covered = std::max(covered, end);
  }
  return seconds;
}

}  // namespace

// Events within an op end before it does, so that in the order of their ends they come before it.
StepTrace MakeStepTrace(const std::vector<TraceEvent>& events, int threads, double peak_gflops) {
  StepTrace trace;
  trace.threads = threads;
  trace.peak_gflops = peak_gflops;
  TracedOp within;
  double loops = 0, tiles = 0;  // of the op that is under way
  for (const TraceEvent& event : events) {
    if (event.kind == Kind::kProduct) {
      within.product_seconds += event.seconds();
      within.multiplications += event.multiplications;
      trace.products.push_back(event);
    } else if (event.kind == Kind::kAllocation) {
      within.allocation_seconds += event.seconds();
      ++trace.allocations;
    } else if (event.kind == Kind::kLoop) {
      loops += event.seconds();
    } else if (event.kind == Kind::kTiles) {
      tiles += event.seconds();
      trace.tiles.push_back(event);
    } else if (event.kind == Kind::kMessage) {
      trace.messages.push_back(event);
    } else {
      within.event = event;
      within.busy_seconds = event.seconds() - loops + tiles;
      trace.loop_seconds += std::exchange(loops, 0);
      trace.tile_seconds += std::exchange(tiles, 0);
      trace.multiplications += within.multiplications;
      trace.seconds = event.end;
      trace.ops.push_back(std::exchange(within, TracedOp()));
    }
  }
  return trace;
}

double StepTrace::MessageSeconds() const { return SecondsOfAny(messages, seconds); }

double StepTrace::HiddenSeconds() const {
  for (const TracedOp& op : ops) {
    if (op.event.name == std::string_view(kExchangeOfGradients)) return SecondsOfAny(messages, op.event.begin);
  }
  return MessageSeconds();
}

std::vector<OpGroup> GroupOps(const StepTrace& trace, GroupBy by) {
  std::map<std::tuple<std::string, Kind, std::string>, OpGroup> groups;
  for (const TracedOp& op : trace.ops) {
    const bool has_shape = op.event.kind == Kind::kForward || op.event.kind == Kind::kBackward;
    const std::string shape = by == GroupBy::kNameAndShape && has_shape ? ToString(op.event.shape) : "";
    OpGroup& group = groups[{op.event.name, op.event.kind, shape}];
    group.name = op.event.name;
    group.shape = shape;
    group.kind = op.event.kind;
    ++group.count;
    group.seconds += op.event.seconds();
    group.product_seconds += op.product_seconds;
    group.busy_seconds += op.busy_seconds;
    group.multiplications += op.multiplications;
    group.bytes += op.event.bytes;
  }
  std::vector<OpGroup> sorted;
  for (auto& [key, group] : groups) sorted.push_back(std::move(group));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const OpGroup& a, const OpGroup& b) { return a.seconds > b.seconds; });
  return sorted;
}

const char* Name(Kind kind) {
  switch (kind) {
    case Kind::kForward:
      return "forward";
    case Kind::kBackward:
      return "backward";
    case Kind::kTape:
      return "tape";
    case Kind::kPhase:
      return "step";
    case Kind::kProduct:
      return "product";
    case Kind::kAllocation:
      return "allocation";
    case Kind::kLoop:
      return "loop";
    case Kind::kTiles:
      return "tiles";
    case Kind::kMessage:
      return "message";
  }
  return "";
}

Json ToJson(const StepTrace& trace) {
  Json ops = Json::MakeArray(), tiles = Json::MakeArray(), messages = Json::MakeArray();
  for (const TracedOp& op : trace.ops) {
    ops.Append(Json::MakeObject({{"kind", Name(op.event.kind)},
                                 {"name", op.event.name},
                                 {"layer", op.event.layer ? Json(*op.event.layer) : Json()},
                                 {"shape", ToString(op.event.shape)},
                                 {"begin", op.event.begin},
                                 {"end", op.event.end},
                                 {"product_seconds", op.product_seconds},
                                 {"multiplications", op.multiplications},
                                 {"bytes", op.event.bytes},
                                 {"busy_seconds", op.busy_seconds}}));
  }
  for (const TraceEvent& tile : trace.tiles) {
    tiles.Append(Json::MakeObject({{"thread", int64_t{tile.thread}}, {"begin", tile.begin}, {"end", tile.end}}));
  }
  for (const TraceEvent& message : trace.messages) {
    messages.Append(Json::MakeObject(
        {{"name", message.name}, {"bytes", message.bytes}, {"begin", message.begin}, {"end", message.end}}));
  }
  return Json::MakeObject({{"seconds", trace.seconds},
                           {"threads", int64_t{trace.threads}},
                           {"peak_gflops", trace.peak_gflops},
                           {"multiplications", trace.multiplications},
                           {"share_of_peak", trace.ShareOfPeak()},
                           {"busy", trace.ShareBusy()},
                           {"waiting", trace.ShareWaiting()},
                           {"alone", trace.ShareAlone()},
                           {"allocations", trace.allocations},
                           {"message_seconds", trace.MessageSeconds()},
                           {"hidden_seconds", trace.HiddenSeconds()},
                           {"ops", std::move(ops)},
                           {"tiles", std::move(tiles)},
                           {"messages", std::move(messages)}});
}

}  // namespace crosstalk
