// Several trainings of one model in threads of one process, each of which computes some parts of every step.
#pragma once

#include <barrier>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "crosstalk/models/training/reducer.h"

namespace crosstalk::testing {

// What the threads tell each other.
struct ThreadExchange {
  explicit ThreadExchange(int threads) : counts(threads), nodes(threads), everyone(threads) {}

  std::vector<StepCounts> counts;                  // by thread
  std::vector<std::vector<PartTree::Node>> nodes;  // the same: sums of its parts
  std::barrier<> everyone;
};

class ThreadReducer : public GradientReducer {
 public:
  ThreadReducer(ThreadExchange* exchange, size_t thread, int64_t all_parts, std::vector<int64_t> parts)
      : exchange_(exchange), thread_(thread), all_parts_(all_parts), parts_(std::move(parts)), tree_(all_parts) {}

  const std::vector<int64_t>& parts() const override { return parts_; }

  StepCounts Begin(const StepCounts& here) override {
    tree_.Take();
    exchange_->counts[thread_] = here;
    exchange_->everyone.arrive_and_wait();
    StepCounts all;
    for (const StepCounts& one : exchange_->counts) {
      all.targets += one.targets;
      all.positions += one.positions;
      all.examples += one.examples;
      all.tokens += one.tokens;
    }
    return all;
  }

  void Add(int64_t part, PartSum sum) override { tree_.Add({0, part, std::move(sum)}); }

  PartSum Finish() override {
    exchange_->nodes[thread_] = tree_.Take();
    exchange_->everyone.arrive_and_wait();
    PartTree whole(all_parts_);
    for (const std::vector<PartTree::Node>& nodes : exchange_->nodes) {
      for (PartTree::Node node : nodes) {
        for (Tensor& gradient : node.sum.gradients) {
          if (gradient.defined()) gradient = gradient.Clone();
        }
        whole.Add(std::move(node));
      }
    }
    exchange_->everyone.arrive_and_wait();  // all have read what each has
    return std::move(whole.Take()[0].sum);
  }

 private:
  ThreadExchange* exchange_;
  size_t thread_;
  int64_t all_parts_;
  std::vector<int64_t> parts_;
  PartTree tree_;
};

// Runs train(thread, reducer) in a thread for each of `shares`, the parts that it computes.
inline void TrainInThreads(int64_t all_parts, const std::vector<std::vector<int64_t>>& shares,
                           const std::function<void(size_t thread, GradientReducer& reducer)>& train) {
  ThreadExchange exchange(static_cast<int>(shares.size()));
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < shares.size(); ++i) {
    threads.emplace_back([&, i] {
      ThreadReducer reducer(&exchange, i, all_parts, shares[i]);
      train(i, reducer);
    });
  }
}

}  // namespace crosstalk::testing
