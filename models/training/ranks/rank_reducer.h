// RankReducer: a step's parts on the ranks of a group. Rank r of R computes the parts ⌊r·N/R⌋ … ⌊(r+1)·N/R⌋ - 1 of N,
// and updates the parameters that it owns, whose optimizer state nobody else holds.
//
// A gradient's way: the parts of a rank fall into a few nodes of the tree over all parts (one, where each rank has as
// many parts as a power of two). As soon as the last of a rank's parts has given a parameter's gradient, these nodes go
// to the parameter's owner, which adds what comes from all ranks in the tree's order, while both compute the gradients
// of other parameters. MPI adds nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "crosstalk/models/training/ranks/rank_group.h"
#include "crosstalk/models/training/ranks/reducer.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/measure.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

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

  std::vector<PartTree<Tensor>> gradients_;  // by parameter: of the parts here, and of all where it is owned
  std::vector<double> complete_here_;        // by parameter: when, of the trace
  std::string losses_;                       // of the parts here: what AddLoss was given, as a message
  size_t next_expected_ = 0;
  std::deque<Receiving> receiving_;
  std::deque<Sending> sending_;
  Exchange exchange_;
  std::optional<Stopwatch> exchange_began_;
};

}  // namespace crosstalk
