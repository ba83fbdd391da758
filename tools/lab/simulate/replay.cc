#include "tools/lab/simulate/replay.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <queue>
#include <unordered_map>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/option_table.h"
#include "tools/page/axis.h"

namespace crosstalk {
namespace {

// Of messages over TCP, a system call and an interrupt at either end.
constexpr double kOverhead = 5e-6;

// Bytes a second are the nominal speed less TCP's overhead, latencies those of a switch and two hosts.
const Network kNamed[] = {{"1GbE", 50e-6, 0.115e9, kOverhead},
                          {"10GbE", 30e-6, 1.1e9, kOverhead},
                          {"25GbE", 20e-6, 2.8e9, kOverhead},
                          {"100GbE", 15e-6, 11e9, kOverhead}};

}  // namespace

Network ParseNetwork(const std::string& text) {
  std::vector<std::string> names;
  for (const Network& network : kNamed) {
    if (network.name == text) return network;
    names.push_back(network.name);
  }
  const std::vector<std::string> parts = Split(text, '/');
  CROSSTALK_CHECK_FIELD(parts.size() == 2 || parts.size() == 3, "network", Excerpt(text), " is none of ",
                        Join(names, ", "), ", and not BANDWIDTH/LATENCY in GB/s and µs, such as 1.1/50",
                        DidYouMean(text, names));
  double numbers[3] = {0, 0, 1e6 * kOverhead};
  for (size_t i = 0; i < parts.size(); ++i) {
    numbers[i] = FieldValue("network", FieldType::kDouble, parts[i]).AsDouble();
    const bool fits = std::isfinite(numbers[i]) && numbers[i] <= 1e9 && (i == 0 ? numbers[i] >= 1e-6 : numbers[i] >= 0);
    CROSSTALK_CHECK_FIELD(fits, "network", Excerpt(text), ": ", Excerpt(parts[i]),
                          i == 0 ? " is no bandwidth in GB/s" : " is no time in µs");
  }
  return {text, 1e-6 * numbers[1], 1e9 * numbers[0], 1e-6 * numbers[2]};
}

std::string Describe(const Network& network) {
  return StrCat(network.name, " (", ShortNumber(1e-9 * network.bytes_per_second), " GB/s, ",
                ShortNumber(1e6 * network.latency), " µs, ", ShortNumber(1e6 * network.overhead), " µs a message)");
}

namespace {

// Messages of one rank to another that are told apart by no more than their order.
uint64_t ChannelOf(Traffic traffic, int32_t from, int32_t parameter) {
  return static_cast<uint64_t>(traffic) << 60 | static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(parameter);
}

struct MessageOnWay {
  int32_t to;
  Traffic traffic;
  uint64_t channel;
  double bytes;
};

struct Event {
  enum class Kind : uint8_t { kRankGoesOn, kReachesLink, kArrives };
  double time;
  uint64_t sequence;  // of events at one time the one that was made first comes first
  Kind kind;
  size_t index;  // of the rank or the message
};
struct Later {
  bool operator()(const Event& a, const Event& b) const {
    return a.time != b.time ? a.time > b.time : a.sequence > b.sequence;
  }
};

struct RankState {
  size_t next_op = 0, next_expected = 0;
  std::unordered_map<uint64_t, int64_t> arrived;  // messages by channel, not yet received
  bool waits = false;
  uint64_t waits_for = 0;
  Traffic waits_for_traffic = Traffic::kCounts;
  double waits_since = 0;
  bool backward_ended = false;
  double out_free = 0, in_free = 0;
};

class Replayer {
 public:
  Replayer(const std::vector<RankProgram>& programs, const Network& network)
      : programs_(programs), network_(network), ranks_(programs.size()) {
    result_.sent_bytes.resize(programs.size());
  }

  ReplayResult Run() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) Schedule(0, Event::Kind::kRankGoesOn, rank);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      switch (event.kind) {
        case Event::Kind::kRankGoesOn:
          GoOn(event.index);
          break;
        case Event::Kind::kReachesLink:
          ReachLink(event.index);
          break;
        case Event::Kind::kArrives:
          Arrive(messages_[event.index]);
          break;
      }
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].next_op == programs_[rank].ops.size()) continue;
      Fail(ErrorKind::kFailure, "simulate: rank ", rank, " waits for a message that nobody sends");
    }
    for (double& waited : result_.waited_seconds) waited /= static_cast<double>(ranks_.size());
    result_.messages = std::ssize(messages_);
    return std::move(result_);
  }

 private:
  void Schedule(double time, Event::Kind kind, size_t index) { events_.push({time, sequence_++, kind, index}); }

  // Does what takes no time; returns where time passes or a message is missing.
  void GoOn(size_t rank) {
    RankState& state = ranks_[rank];
    const RankProgram& program = programs_[rank];
    while (state.next_op < program.ops.size()) {
      const RankOp& op = program.ops[state.next_op];
      switch (op.kind) {
        case RankOp::Kind::kCompute:
          ++state.next_op;
          if (op.amount > 0) return Schedule(now_ + op.amount, Event::Kind::kRankGoesOn, rank);
          break;
        case RankOp::Kind::kSend:
          Send(rank, op);
          ++state.next_op;
          break;
        case RankOp::Kind::kReceive:
          if (!Take(state, op.traffic, ChannelOf(op.traffic, op.peer, op.parameter), Missing::kWait)) return;
          ++state.next_op;
          break;
        case RankOp::Kind::kTakeArrived:
        case RankOp::Kind::kTakeAll: {
          const bool all = op.kind == RankOp::Kind::kTakeAll;
          if (state.next_expected == program.expected.size()) {
            ++state.next_op;
            break;
          }
          const ExpectedGradient& next = program.expected[state.next_expected];
          const uint64_t channel = ChannelOf(Traffic::kGradient, next.from, next.parameter);
          if (Take(state, Traffic::kGradient, channel, all ? Missing::kWait : Missing::kGoOn)) {
            ++state.next_expected;
            if (next.add_seconds > 0) return Schedule(now_ + next.add_seconds, Event::Kind::kRankGoesOn, rank);
          } else if (all) {
            return;
          } else {
            ++state.next_op;
          }
          break;
        }
        case RankOp::Kind::kBackwardEnds:
          state.backward_ended = true;
          ++state.next_op;
          break;
      }
    }
    result_.seconds = std::max(result_.seconds, now_);
  }

  enum class Missing { kWait, kGoOn };
  // Whether a message was there.
  bool Take(RankState& state, Traffic traffic, uint64_t channel, Missing missing) {
    const auto found = state.arrived.find(channel);
    if (found != state.arrived.end()) {
      if (--found->second == 0) state.arrived.erase(found);
      return true;
    }
    if (missing == Missing::kWait) {
      state.waits = true;
      state.waits_for = channel;
      state.waits_for_traffic = traffic;
      state.waits_since = now_;
    }
    return false;
  }

  void Send(size_t from, const RankOp& op) {
    const double out = std::max(now_, ranks_[from].out_free);
    ranks_[from].out_free = out + network_.Occupancy(op.amount);
    messages_.push_back(
        {op.peer, op.traffic, ChannelOf(op.traffic, static_cast<int32_t>(from), op.parameter), op.amount});
    Schedule(out + network_.latency, Event::Kind::kReachesLink, messages_.size() - 1);
    if (op.traffic >= Traffic::kGradient) result_.sent_bytes[from] += op.amount;
    if (op.traffic == Traffic::kGradient) result_.gradient_bytes += op.amount;
  }

  void ReachLink(size_t index) {
    RankState& receiver = ranks_[static_cast<size_t>(messages_[index].to)];
    receiver.in_free = std::max(now_, receiver.in_free) + network_.Occupancy(messages_[index].bytes);
    Schedule(receiver.in_free, Event::Kind::kArrives, index);
  }

  void Arrive(const MessageOnWay& message) {
    const auto rank = static_cast<size_t>(message.to);
    RankState& receiver = ranks_[rank];
    if (message.traffic == Traffic::kGradient && !receiver.backward_ended) result_.hidden_bytes += message.bytes;
    ++receiver.arrived[message.channel];
    if (!receiver.waits || receiver.waits_for != message.channel) return;
    receiver.waits = false;
    result_.waited_seconds[static_cast<size_t>(receiver.waits_for_traffic)] += now_ - receiver.waits_since;
    GoOn(rank);
  }

  const std::vector<RankProgram>& programs_;
  const Network& network_;
  std::vector<RankState> ranks_;
  std::vector<MessageOnWay> messages_;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  uint64_t sequence_ = 0;
  double now_ = 0;
  ReplayResult result_;
};

}  // namespace

ReplayResult Replay(const std::vector<RankProgram>& programs, const Network& network) {
  return Replayer(programs, network).Run();
}

}  // namespace crosstalk
