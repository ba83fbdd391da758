#include "tools/lab/simulate/replay.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <queue>
#include <semaphore>
#include <system_error>
#include <thread>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/option_table.h"
#include "tools/page/axis.h"

namespace crosstalk {
namespace {

// The overhead of a message over TCP: a system call and an interrupt at either end.
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

bool IsSmall(int tag) { return tag < RankGroup::kFirstFreeTag; }

struct Message {
  size_t from, to;
  int tag;
  size_t size;
  std::shared_ptr<const std::string> bytes;  // null: of a tensor
  bool hides = false;                        // a gradient, if its receiver's backward is then under way
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

class Replayer;

class RankThread : public ReplayedRank {
 public:
  RankThread(Replayer& replayer, size_t rank) : replayer_(replayer), rank_(rank) {}

  int rank() const override { return static_cast<int>(rank_); }
  int size() const override;
  std::string host(int /*rank*/) const override { return "simulated"; }
  Request Send(int to, int tag, std::span<const std::byte> bytes) override;
  Request Receive(int from, int tag, std::span<std::byte> bytes) override;
  size_t Wait(Request request) override;
  bool Test(Request request) override;
  void Abort(int /*code*/) override {}

  void Compute(double seconds) override { ahead_ += seconds; }
  void Gather(Traffic purpose) override { gathered_ = purpose; }
  void EndBackward() override {
    CatchUp();
    backward_ended_ = true;
  }

 private:
  friend class Replayer;

  // The messages from one rank under one tag, in their order: of its requests the k-th gets the k-th.
  struct Channel {
    size_t requests = 0;
    std::vector<Message> arrived;
  };
  struct Pending {
    Channel* channel;  // null: sent
    size_t place;
    std::span<std::byte> into;
    Traffic traffic;
    size_t size;

    bool IsThere() const { return channel == nullptr || place < channel->arrived.size(); }
  };

  Traffic TrafficOf(int tag) const {
    if (IsSmall(tag)) return gathered_;
    return gathered_ == Traffic::kSquares ? Traffic::kWeight : Traffic::kGradient;
  }
  // Lets the seconds pass that it has computed.
  void CatchUp();

  Replayer& replayer_;
  size_t rank_;
  std::binary_semaphore turn_{0};
  std::thread thread_;
  bool ended_ = false;

  double ahead_ = 0;  // computed, and not yet passed
  Traffic gathered_ = Traffic::kCounts;
  bool backward_ended_ = false;
  std::map<std::pair<int, int>, Channel> channels_;  // by sender and tag
  std::vector<Pending> requests_;
  const Pending* awaited_ = nullptr;
  std::shared_ptr<const std::string> last_sent_;  // rank 0 sends one text to all
  double out_free_ = 0, in_free_ = 0;
};

// The clock. A rank that has to wait runs the events up to one that lets a rank go on, and gives it the turn.
class Replayer {
 public:
  Replayer(int ranks, const Network& network, Replayed what) : network_(network), what_(what) {
    for (int rank = 0; rank < ranks; ++rank) {
      ranks_.push_back(std::make_unique<RankThread>(*this, static_cast<size_t>(rank)));
    }
    result_.sent_bytes.resize(ranks_.size());
  }

  ReplayResult Run(const std::function<void(ReplayedRank& rank)>& body) {
    try {
      for (const auto& rank : ranks_) {
        rank->thread_ = std::thread([this, &body, &rank = *rank] { RunRank(rank, body); });
      }
    } catch (const std::system_error&) {
      EndAll();
      Fail(ErrorKind::kResource, "simulate: the system gives no ", ranks_.size(), " threads, one a rank");
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) Schedule(0, Event::Kind::kRankGoesOn, rank);
    GiveTurn(NextRank());
    all_wait_.acquire();
    for (size_t rank = 0; rank < ranks_.size() && !error_; ++rank) {
      if (ranks_[rank]->ended_) continue;
      error_ = std::make_exception_ptr(
          Error(ErrorKind::kFailure, StrCat("simulate: rank ", rank, " waits for a message that nobody sends")));
    }
    EndAll();
    if (error_) std::rethrow_exception(error_);
    for (double& waited : result_.waited_seconds) waited /= static_cast<double>(ranks_.size());
    return std::move(result_);
  }

  size_t ranks() const { return ranks_.size(); }

  void PassTime(RankThread& rank, double seconds) {
    if (what_ == Replayed::kSmallMessages) return;
    Schedule(now_ + seconds, Event::Kind::kRankGoesOn, rank.rank_);
    WaitForTurn(rank);
  }

  void Send(RankThread& from, Message message, Traffic traffic) {
    const bool travels = what_ == Replayed::kAll || IsSmall(message.tag);
    const auto bytes = static_cast<double>(message.size);
    message.hides = traffic == Traffic::kGradient;
    messages_.push_back(std::move(message));
    if (!travels) return Schedule(now_, Event::Kind::kArrives, messages_.size() - 1);
    const double out = std::max(now_, from.out_free_);
    from.out_free_ = out + network_.Occupancy(bytes);
    Schedule(out + network_.latency, Event::Kind::kReachesLink, messages_.size() - 1);
    ++result_.messages;
    if (traffic >= Traffic::kGradient) result_.sent_bytes[from.rank_] += bytes;
    if (traffic == Traffic::kGradient) result_.gradient_bytes += bytes;
  }

  void WaitFor(RankThread& rank, const RankThread::Pending& request) {
    const double since = now_;
    rank.awaited_ = &request;
    WaitForTurn(rank);
    result_.waited_seconds[static_cast<size_t>(request.traffic)] += now_ - since;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  void RunRank(RankThread& rank, const std::function<void(ReplayedRank& rank)>& body) {
    rank.turn_.acquire();
    try {
      ThrowIfEnding();
      body(rank);
      rank.CatchUp();
    } catch (...) {
      if (!error_) error_ = std::current_exception();
    }
    rank.ended_ = true;
    result_.seconds = std::max(result_.seconds, now_);
    if (!ending_) GiveTurn(NextRank());
  }

  // Ends every thread, one after another; those that wait throw.
  void EndAll() {
    ending_ = true;
    for (const auto& rank : ranks_) {
      if (!rank->thread_.joinable()) continue;
      rank->turn_.release();
      rank->thread_.join();
    }
  }
  void ThrowIfEnding() const {
    if (ending_) Fail(ErrorKind::kFailure, "simulate: the replay has ended");
  }

  void Schedule(double time, Event::Kind kind, size_t index) { events_.push({time, sequence_++, kind, index}); }

  void GiveTurn(size_t rank) { (rank == kNone ? all_wait_ : ranks_[rank]->turn_).release(); }
  void WaitForTurn(RankThread& rank) {
    ThrowIfEnding();
    const size_t next = NextRank();
    if (next == rank.rank_) return;
    GiveTurn(next);
    rank.turn_.acquire();
    ThrowIfEnding();
  }

  // Runs events until a rank goes on.
  size_t NextRank() {
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.kind == Event::Kind::kRankGoesOn) return event.index;
      if (event.kind == Event::Kind::kReachesLink) {
        ReachLink(event.index);
      } else if (const size_t receiver = messages_[event.index].to; Arrive(std::move(messages_[event.index]))) {
        return receiver;
      }
    }
    return kNone;
  }

  void ReachLink(size_t index) {
    RankThread& receiver = *ranks_[messages_[index].to];
    receiver.in_free_ =
        std::max(now_, receiver.in_free_) + network_.Occupancy(static_cast<double>(messages_[index].size));
    Schedule(receiver.in_free_, Event::Kind::kArrives, index);
  }

  // Whether the receiver has waited for it.
  bool Arrive(Message message) {
    RankThread& receiver = *ranks_[message.to];
    if (message.hides && !receiver.backward_ended_) result_.hidden_bytes += static_cast<double>(message.size);
    receiver.channels_[{static_cast<int>(message.from), message.tag}].arrived.push_back(std::move(message));
    if (receiver.awaited_ == nullptr || !receiver.awaited_->IsThere()) return false;
    receiver.awaited_ = nullptr;
    return true;
  }

  const Network& network_;
  Replayed what_;
  std::vector<std::unique_ptr<RankThread>> ranks_;
  std::binary_semaphore all_wait_{0};  // no event is left
  bool ending_ = false;
  std::exception_ptr error_;
  std::vector<Message> messages_;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  uint64_t sequence_ = 0;
  double now_ = 0;
  ReplayResult result_;
};

int RankThread::size() const { return static_cast<int>(replayer_.ranks()); }

void RankThread::CatchUp() {
  if (ahead_ > 0) replayer_.PassTime(*this, std::exchange(ahead_, 0));
}

Transport::Request RankThread::Send(int to, int tag, std::span<const std::byte> bytes) {
  CatchUp();
  Message message{.from = rank_, .to = static_cast<size_t>(to), .tag = tag, .size = bytes.size(), .bytes = nullptr};
  if (IsSmall(tag)) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!last_sent_ || *last_sent_ != text) last_sent_ = std::make_shared<const std::string>(text);
    message.bytes = last_sent_;
  }
  replayer_.Send(*this, std::move(message), TrafficOf(tag));
  requests_.push_back({nullptr, 0, {}, TrafficOf(tag), bytes.size()});
  return requests_.size() - 1;
}

Transport::Request RankThread::Receive(int from, int tag, std::span<std::byte> bytes) {
  Channel& channel = channels_[{from, tag}];
  requests_.push_back({&channel, channel.requests++, bytes, TrafficOf(tag), 0});
  return requests_.size() - 1;
}

size_t RankThread::Wait(Request request) {
  CatchUp();
  const Pending pending = requests_[request];
  if (pending.channel == nullptr) return pending.size;
  if (!pending.IsThere()) replayer_.WaitFor(*this, pending);
  Message& message = pending.channel->arrived[pending.place];
  CROSSTALK_CHECK(message.size <= pending.into.size(), "simulate: a message of ", message.size, " bytes for ",
                  pending.into.size());
  if (message.bytes) std::memcpy(pending.into.data(), message.bytes->data(), message.size);
  message.bytes.reset();
  return message.size;
}

bool RankThread::Test(Request request) {
  CatchUp();
  return requests_[request].IsThere();
}

}  // namespace

ReplayResult Replay(int ranks, const Network& network, Replayed what,
                    const std::function<void(ReplayedRank& rank)>& body) {
  return Replayer(ranks, network, what).Run(body);
}

}  // namespace crosstalk
