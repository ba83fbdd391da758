// A recorded step on ranks: RankReducer over a ReplayedRank.
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/models/training/ranks/reducer.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/op_context.h"
#include "tools/lab/simulate/replay.h"

namespace crosstalk {
namespace {

// RankReducer, whose additions take the recorded seconds.
class ReplayedReducer : public RankReducer {
 public:
  ReplayedReducer(RankGroup& group, const std::vector<NamedParameter>& parameters, int64_t parts, ReplayedRank& rank,
                  const std::vector<double>& add_seconds)
      : RankReducer(group, parameters, parts), rank_(rank), add_seconds_(add_seconds) {}

 protected:
  int64_t AddNode(size_t parameter, PartTree<Tensor>::Node node) override {
    const int64_t additions = RankReducer::AddNode(parameter, std::move(node));
    rank_.Compute(static_cast<double>(additions) * add_seconds_[parameter]);
    return additions;
  }

 private:
  ReplayedRank& rank_;
  const std::vector<double>& add_seconds_;
};

// What every rank of a step knows.
class RecordedStep {
 public:
  RecordedStep(const StepRecording& recording, int ranks, int64_t parts)
      : recording_(recording), parts_(parts), order_(recording.parameters.size()), owned_(static_cast<size_t>(ranks)) {
    const ContextScope no_values(&OpContext::shapes_only, true);
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      return recording.parameters[a].seconds < recording.parameters[b].seconds;
    });
    parameters_ = ParametersOf(recording);
    const std::vector<int> owners = OwnersOf(parameters_, ranks);
    for (size_t i = 0; i < owners.size(); ++i) {
      if (owners[i] >= 0) owned_[static_cast<size_t>(owners[i])] += ShareOf(recording.parameters[i]);
    }
    for (const RecordedParameter& one : recording.parameters) {
      const bool added = one.trainable && one.reached;
      add_seconds_.push_back(added ? ShareOf(one) * recording.add_seconds : 0);
    }
    // Three numbers and, for the rest, one metric: three more and its name.
    constexpr int64_t kOfLoss = 24, kOfMetric = 24;
    if (recording.loss_bytes >= kOfLoss + kOfMetric) {
      const auto name = static_cast<size_t>(recording.loss_bytes - kOfLoss - kOfMetric);
      loss_.metrics.push_back({std::string(name, '-'), 0, 0});
    }
  }

  // Loop::Step, with seconds instead of computation.
  void Run(ReplayedRank& rank) const {
    const ContextScope no_values(&OpContext::shapes_only, true);
    RankGroup group(rank);
    ReplayedReducer reducer(group, parameters_, parts_, rank, add_seconds_);
    reducer.Start();
    rank.Compute(static_cast<double>(reducer.parts().size()) * recording_.batch_seconds);
    reducer.Begin({}, parameters_.size());
    for (const int64_t part : reducer.parts()) {
      rank.Compute(recording_.forward_seconds);
      double passed = 0;
      for (const size_t i : order_) {
        const RecordedParameter& parameter = recording_.parameters[i];
        rank.Compute(parameter.seconds - passed);
        passed = parameter.seconds;
        const bool reached = parameter.trainable && parameter.reached;
        reducer.AddGradient(part, i, reached ? parameters_[i].value.value() : Tensor());
      }
      rank.Compute(recording_.backward_seconds - passed);
      reducer.AddLoss(part, loss_);
    }
    rank.EndBackward();
    rank.Gather(Traffic::kLosses);
    reducer.Finish();
    const double owned = owned_[static_cast<size_t>(group.rank())];
    rank.Compute(owned * recording_.norm_seconds);
    rank.Gather(Traffic::kSquares);
    std::vector<double> squares(parameters_.size());
    reducer.ShareSquares(squares);
    rank.Compute(owned * recording_.optimizer_seconds);
    reducer.ShareParameters();
  }

  static std::vector<NamedParameter> ParametersOf(const StepRecording& recording) {
    std::vector<NamedParameter> parameters;
    for (const RecordedParameter& one : recording.parameters) {
      const DType dtype = one.bytes == 8 * one.elements ? DType::kFloat64 : DType::kFloat32;
      parameters.push_back({.name = one.name,
                            .value = Variable(Tensor::Empty({one.elements}, dtype)),
                            .matrix_shape = {},
                            .trainable = one.trainable});
    }
    return parameters;
  }

 private:
  double ShareOf(const RecordedParameter& parameter) const {
    return static_cast<double>(parameter.bytes) / static_cast<double>(recording_.TrainableBytes());
  }

  const StepRecording& recording_;
  int64_t parts_;
  std::vector<size_t> order_;  // in which gradients become complete
  std::vector<NamedParameter> parameters_;
  std::vector<double> add_seconds_;  // by parameter: of one gradient to another
  std::vector<double> owned_;        // by rank: its share of the trainable bytes
  LossSum loss_;
};

}  // namespace

ReplayResult ReplayStep(const StepRecording& recording, int ranks, int64_t parts, const Network& network,
                        Replayed what) {
  const RecordedStep step(recording, ranks, parts);
  return Replay(ranks, network, what, [&step](ReplayedRank& rank) { step.Run(rank); });
}

std::vector<int> OwnersOf(const StepRecording& recording, int ranks) {
  const ContextScope no_values(&OpContext::shapes_only, true);
  return OwnersOf(RecordedStep::ParametersOf(recording), ranks);
}

int64_t RankMemoryBytes(const StepRecording& recording, int ranks, int64_t parts) {
  int64_t weights = 0;
  for (const RecordedParameter& parameter : recording.parameters) weights += parameter.bytes;
  const std::vector<int> owners = OwnersOf(recording, ranks);
  std::vector<int64_t> owned(static_cast<size_t>(ranks));
  for (size_t i = 0; i < owners.size(); ++i) {
    if (owners[i] >= 0) owned[static_cast<size_t>(owners[i])] += recording.parameters[i].bytes;
  }
  const int64_t trainable = recording.TrainableBytes();
  const double share =
      static_cast<double>(*std::max_element(owned.begin(), owned.end())) / static_cast<double>(trainable);
  return weights + (1 + MostGradientsKept(CeilDivide<int64_t>(parts, ranks))) * trainable +
         static_cast<int64_t>(share * static_cast<double>(recording.optimizer_bytes));
}

}  // namespace crosstalk
