// A Transport between threads of one process, each of which is a rank; and what can go wrong between processes: a rank
// that is lost, or says nothing any more.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "crosstalk/models/training/ranks/rank_group.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk::testing {

// What the ranks share.
class ThreadHub {
 public:
  explicit ThreadHub(int size, std::chrono::milliseconds timeout = std::chrono::seconds(60))
      : size_(size), timeout_(timeout) {}

  int size() const { return size_; }

  void Put(int from, int to, int tag, std::string message) {
    const std::lock_guard lock(mutex_);
    if (lost_.contains(from)) return;
    queues_[{from, to, tag}].push_back(std::move(message));
    changed_.notify_all();
  }
  bool Has(int from, int to, int tag) {
    const std::lock_guard lock(mutex_);
    return !queues_[{from, to, tag}].empty();
  }
  std::string Get(int from, int to, int tag) {
    std::unique_lock lock(mutex_);
    std::deque<std::string>& queue = queues_[{from, to, tag}];
    const bool in_time = changed_.wait_for(lock, timeout_, [&] { return !queue.empty() || lost_.contains(from); });
    if (queue.empty()) {
      Fail(ErrorKind::kFailure, "rank ", from, " (thread) ", in_time ? "is lost" : "says nothing any more");
    }
    std::string message = std::move(queue.front());
    queue.pop_front();
    return message;
  }
  // What it sends from now on goes nowhere.
  void Lose(int rank) {
    const std::lock_guard lock(mutex_);
    lost_.insert(rank);
    changed_.notify_all();
  }

 private:
  int size_;
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::tuple<int, int, int>, std::deque<std::string>> queues_;  // by from, to, tag
  std::set<int> lost_;
};

class ThreadTransport : public Transport {
 public:
  ThreadTransport(ThreadHub& hub, int rank) : hub_(hub), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return hub_.size(); }
  std::string host(int /*rank*/) const override { return "thread"; }

  Request Send(int to, int tag, std::span<const std::byte> bytes) override {
    hub_.Put(rank_, to, tag, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    bytes_sent_ += std::ssize(bytes);
    return 0;
  }
  // Messages of one rank and tag are taken in the order in which their requests are waited for.
  Request Receive(int from, int tag, std::span<std::byte> bytes) override {
    receiving_[++last_] = {from, tag, bytes};
    return last_;
  }
  size_t Wait(Request request) override {
    if (request == 0) return 0;
    const Receiving what = receiving_.at(request);
    const std::string message = hub_.Get(what.from, rank_, what.tag);
    receiving_.erase(request);
    CROSSTALK_CHECK(message.size() <= what.bytes.size(), "a message of ", message.size(), " bytes for ",
                    what.bytes.size());
    if (!message.empty()) std::memcpy(what.bytes.data(), message.data(), message.size());
    return message.size();
  }
  bool Test(Request request) override {
    if (request == 0) return true;
    const Receiving& what = receiving_.at(request);
    return hub_.Has(what.from, rank_, what.tag);
  }
  void Abort(int /*code*/) override { hub_.Lose(rank_); }

  int64_t bytes_sent() const { return bytes_sent_; }

 private:
  struct Receiving {
    int from, tag;
    std::span<std::byte> bytes;
  };

  ThreadHub& hub_;
  int rank_;
  Request last_ = 0;
  std::map<Request, Receiving> receiving_;
  int64_t bytes_sent_ = 0;
};

// Runs body(transport) in a thread for each rank. A rank that throws is lost to the others; what the first of them
// threw is thrown.
inline void RunRanks(ThreadHub& hub, const std::function<void(ThreadTransport& transport)>& body) {
  std::vector<std::future<void>> ranks;
  for (int rank = 0; rank < hub.size(); ++rank) {
    ranks.push_back(std::async(std::launch::async, [&, rank] {
      ThreadTransport transport(hub, rank);
      try {
        body(transport);
      } catch (...) {
        hub.Lose(rank);
        throw;
      }
    }));
  }
  for (std::future<void>& rank : ranks) rank.wait();
  for (std::future<void>& rank : ranks) rank.get();
}
inline void RunRanks(int size, const std::function<void(ThreadTransport& transport)>& body) {
  ThreadHub hub(size);
  RunRanks(hub, body);
}

}  // namespace crosstalk::testing
