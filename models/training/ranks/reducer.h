// Where the parts of a step are computed, and the one order in which what they give is summed: it depends on the number
// of parts alone, so that a model's bits do not depend on where its parts were computed.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/models/metrics.h"
#include "crosstalk/models/training/ranks/rank_group.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/measure.h"
#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// What the batches of a step hold.
struct StepCounts {
  int64_t targets = 0, positions = 0, examples = 0, tokens = 0;
};

// The loss of parts of a step.
struct LossSum {
  double loss = 0;
  std::vector<MetricSum> metrics;
};
void AddTo(LossSum& left, LossSum right);
// Adds a parameter's gradients; one that is undefined has not been reached, and adds nothing.
void AddTo(Tensor& left, Tensor right);

// The binary tree over the parts 0 … N-1 of a step: node (level, i) = node (level-1, 2i) + node (level-1, 2i+1), the
// part i itself at level 0. A child that has no parts is left out: with N = 5, ((0 + 1) + (2 + 3)) + 4. Of a Sum that
// AddTo adds up.
template <typename Sum>
class PartTree {
 public:
  struct Node {
    int level = 0;
    int64_t index = 0;
    Sum sum;

    int64_t first_part() const { return index << level; }
  };

  explicit PartTree(int64_t parts) : parts_(parts) {
    CROSSTALK_CHECK(parts >= 1, "training: a step of ", parts, " parts; there must be at least 1");
  }

  // Takes a node, in any order, and adds up what is complete with it: so many additions. Of parts in ascending order it
  // keeps as many nodes as their number has binary ones.
  int64_t Add(Node node) {
    int64_t additions = 0;
    const int root = std::bit_width(static_cast<uint64_t>(parts_ - 1));
    for (; node.level < root; ++node.level, node.index /= 2) {
      const int64_t sibling = node.index ^ 1;
      if (sibling << node.level >= parts_) continue;  // it has no parts
      const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                      [&](const Node& one) { return one.level == node.level && one.index == sibling; });
      if (found == nodes_.end()) break;
      if (sibling < node.index) std::swap(found->sum, node.sum);
      AddTo(node.sum, std::move(found->sum));
      ++additions;
      nodes_.erase(found);
    }
    nodes_.push_back(std::move(node));
    return additions;
  }

  // The sums that have no sibling here yet, by their first part: after the last part one, the root. None stay.
  std::vector<Node> Take() {
    std::sort(nodes_.begin(), nodes_.end(),
              [](const Node& a, const Node& b) { return a.first_part() < b.first_part(); });
    return std::exchange(nodes_, {});
  }

 private:
  int64_t parts_;
  std::vector<Node> nodes_;
};

// The most gradients, each of all parameters, that a tree keeps while a part is computed, the parts being in order.
int MostGradientsKept(int64_t parts);

// Whether a loop computes so many parts of a step of these parameters beside each other, each on one of NumThreads(): a
// small model's operations are too short to be divided among threads. Otherwise each part is computed on all of them,
// one after another: where more than an eighth of the threads' turns would be without a part, or where the gradients of
// all parts would take more than kMostApartBytes.
bool AreBesideEachOther(int64_t parts, const std::vector<NamedParameter>& parameters);
inline constexpr int64_t kMostApartBytes = int64_t{256} << 20;

// The results of a step, over all its parts.
struct StepSum {
  std::vector<Tensor> gradients;  // by parameter, shared with nothing; undefined: none has reached it
  LossSum loss;
};

// A step is Begin; for each of parts() in order AddGradient of every parameter, in any order, and AddLoss; and Finish.
// Begin forgets a step that an exception cut off. A process of several that train one model computes some of the parts
// and updates some of the parameters; the calls then wait for the others where they must, and every process makes the
// same ones.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;

  // The parts of a step that are computed here, ascending.
  virtual const std::vector<int64_t>& parts() const = 0;
  // Before the step's batches are made.
  virtual void Start() {}
  // Counts of all parts, given those of the parts here: a loss is divided by them before its gradient is computed.
  virtual StepCounts Begin(const StepCounts& here, size_t parameters) = 0;
  // Whether it takes each gradient as soon as it is complete, while the others are computed.
  virtual bool overlaps() const { return false; }
  // Undefined: the part has not reached it, or its loss is not finite. Where overlaps() is false, several threads may
  // call it at a time, for different parameters.
  virtual void AddGradient(int64_t part, size_t parameter, Tensor gradient) = 0;
  virtual void AddLoss(int64_t part, LossSum sum) = 0;
  // The trees' roots. Gradients of parameters that are updated elsewhere are undefined.
  virtual StepSum Finish() = 0;

  // Σ g² by parameter: takes over those of parameters that are updated elsewhere.
  virtual void ShareSquares(std::vector<double>& /*squares*/) {}
  // Once the parameters are updated that are updated here: takes over the others.
  virtual void ShareParameters() {}
  // The first text, by the order of parts, that is not empty.
  virtual std::string ShareText(std::string text) { return text; }
  // What this step has cost so far: bytes sent to other processes; seconds from the first gradient that was sent or
  // expected until all were there; and seconds, of these and of others, in which nothing was done but to wait.
  struct Exchange {
    int64_t bytes_sent = 0;
    double exchange_seconds = 0;
    double waited_seconds = 0;
  };
  virtual Exchange exchange() const { return {}; }
};

// All parts, here, one after another.
class LocalReducer : public GradientReducer {
 public:
  explicit LocalReducer(int64_t parts = 1);

  const std::vector<int64_t>& parts() const override { return parts_; }
  StepCounts Begin(const StepCounts& here, size_t parameters) override;
  void AddGradient(int64_t part, size_t parameter, Tensor gradient) override {
    gradients_[parameter].Add({0, part, std::move(gradient)});
  }
  void AddLoss(int64_t part, LossSum sum) override { loss_.Add({0, part, std::move(sum)}); }
  StepSum Finish() override;

 private:
  std::vector<int64_t> parts_;
  std::vector<PartTree<Tensor>> gradients_;  // by parameter
  PartTree<LossSum> loss_;
};

// RankReducer: a step's parts on the ranks of a group. Rank r of R computes the parts ⌊r·N/R⌋ … ⌊(r+1)·N/R⌋ - 1 of N,
// and updates the parameters that it owns, whose optimizer state nobody else holds.
//
// A gradient's way: the parts of a rank fall into a few nodes of the tree over all parts (one, where each rank has as
// many parts as a power of two). As soon as the last of a rank's parts has given a parameter's gradient, these nodes go
// to the parameter's owner, which adds what comes from all ranks in the tree's order, while both compute the gradients
// of other parameters. MPI adds nothing.

// The rank that owns each parameter: the largest first, each to the rank that has the fewest elements so far. -1: it is
// not trainable.
std::vector<int> OwnersOf(const std::vector<NamedParameter>& parameters, int ranks);
// Those of a rank, in their order.
std::vector<NamedParameter> OwnedBy(int rank, const std::vector<NamedParameter>& parameters, int ranks);
// The parts of a step that a rank computes.
std::vector<int64_t> PartsOf(int rank, int ranks, int64_t parts);
// The nodes (level, index) of the tree over `parts` that a rank's parts fall into, in their order.
struct PartNode {
  int level;
  int64_t index;
};
std::vector<PartNode> NodesOf(int rank, int ranks, int64_t parts);

// The phase of a trace in which a step waits for gradients of other ranks that are still under way.
inline constexpr char kExchangeOfGradients[] = "exchange of gradients";

// Messages that an owner waits for at a time: its memory for what others have computed.
inline constexpr int64_t kMostReceiving = 16;

class RankReducer : public GradientReducer {
 public:
  // Refers to the group. 1 ≤ ranks ≤ parts.
  RankReducer(RankGroup& group, const std::vector<NamedParameter>& parameters, int64_t parts);
  // Waits for what is under way, whose bytes are this object's.
  ~RankReducer() override;

  const std::vector<int64_t>& parts() const override { return parts_; }
  void Start() override;
  StepCounts Begin(const StepCounts& here, size_t parameters) override;
  bool overlaps() const override { return true; }
  void AddGradient(int64_t part, size_t parameter, Tensor gradient) override;
  void AddLoss(int64_t part, LossSum sum) override;
  StepSum Finish() override;
  void ShareSquares(std::vector<double>& squares) override;
  void ShareParameters() override;
  std::string ShareText(std::string text) override;
  Exchange exchange() const override { return exchange_; }

 protected:
  // Every gradient, of a part or of another rank, is added here.
  virtual int64_t AddNode(size_t parameter, PartTree<Tensor>::Node node) {
    return gradients_[parameter].Add(std::move(node));
  }

 private:
  // An owner's expected message: one node of one parameter from one rank.
  struct Expected {
    size_t parameter;
    int from;
    PartNode node;
  };
  struct Receiving {
    Expected what;
    Tensor buffer;
    Transport::Request request;
  };
  struct Sending {
    Tensor tensor;  // undefined: nothing was sent but that
    Transport::Request request;
    double begin;  // of the trace
  };

  int tag_of(size_t parameter) const { return RankGroup::kFirstFreeTag + static_cast<int>(parameter); }
  bool owns(size_t parameter) const { return owners_[parameter] == group_.rank(); }
  Transport::Request Send(int to, int tag, std::span<const std::byte> bytes);
  void ReceiveMore();
  void Poll();
  void TakeFront();
  void FinishSending();
  void WaitForAll();

  RankGroup& group_;
  std::vector<NamedParameter> parameters_;
  std::vector<int> owners_;
  int64_t all_parts_;
  std::vector<int64_t> parts_;
  std::vector<Expected> expected_;  // of a step, in the order in which gradients become complete

  std::vector<PartTree<Tensor>> gradients_;  // by parameter: of the parts here, and of all if it is owned
  std::vector<double> complete_here_;        // by parameter: when, of the trace
  std::string losses_;                       // of the parts here: what AddLoss was given, as a message
  size_t next_expected_ = 0;
  std::deque<Receiving> receiving_;
  std::deque<Sending> sending_;
  Exchange exchange_;
  std::optional<Stopwatch> exchange_began_;
};

}  // namespace crosstalk
#pragma GCC visibility pop
