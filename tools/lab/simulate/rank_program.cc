#include "tools/lab/simulate/rank_program.h"

#include <algorithm>
#include <numeric>

#include "crosstalk/models/training/ranks/reducer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {
namespace {

using Kind = RankOp::Kind;

// A sum that counts the additions which make it.
struct CountedSum {
  int64_t* additions;
};
void AddTo(CountedSum& left, CountedSum /*right*/) { ++*left.additions; }

// Of what a rank owns.
struct Owned {
  double share = 0;  // of the trainable bytes
  int64_t parameters = 0;
};

// The programs of a step, one rank at a time.
class Programs {
 public:
  Programs(const StepRecording& recording, int ranks, int64_t parts)
      : recording_(recording), ranks_(ranks), parts_(parts), owners_(OwnersOf(recording, ranks)) {
    CROSSTALK_CHECK(1 <= ranks && ranks <= parts, "simulate: ", ranks, " ranks for the ", parts, " parts of a step");
    completed_.resize(recording.parameters.size());
    std::iota(completed_.begin(), completed_.end(), size_t{0});
    std::stable_sort(completed_.begin(), completed_.end(), [&](size_t a, size_t b) {
      return recording.parameters[a].seconds < recording.parameters[b].seconds;
    });
    owned_.resize(static_cast<size_t>(ranks));
    for (size_t i = 0; i < owners_.size(); ++i) {
      if (owners_[i] < 0) continue;
      Owned& owned = owned_[static_cast<size_t>(owners_[i])];
      owned.share += ShareOf(i);
      ++owned.parameters;
    }
    for (int rank = 0; rank < ranks; ++rank) nodes_.push_back(NodesOf(rank, ranks, parts));
  }

  // RankReducer's calls in the order in which Loop::Step makes them.
  RankProgram Of(int rank) {
    program_ = {};
    rank_ = rank;
    const std::vector<int64_t> mine = PartsOf(rank, ranks_, parts_);
    const std::vector<int64_t> additions = AdditionsAfter(mine);
    Compute(static_cast<double>(mine.size()) * recording_.batch_seconds);
    AllGather(Traffic::kCounts, [](int) { return 4 * sizeof(int64_t); });
    for (size_t i = 0; i + 1 < mine.size(); ++i) {
      Compute(recording_.forward_seconds + recording_.backward_seconds +
              static_cast<double>(additions[i]) * AddSecondsOfAll());
    }
    Compute(recording_.forward_seconds);
    Backward(additions[mine.size() - 1]);
    AllGather(Traffic::kLosses,
              [this](int r) { return PartsOf(r, ranks_, parts_).size() * static_cast<size_t>(recording_.loss_bytes); });
    Append({.kind = Kind::kTakeAll});
    const Owned& owned = owned_[static_cast<size_t>(rank)];
    Compute(owned.share * recording_.norm_seconds);
    AllGather(Traffic::kSquares, [this](int r) {
      return static_cast<size_t>(owned_[static_cast<size_t>(r)].parameters) * (sizeof(int64_t) + sizeof(double));
    });
    Compute(owned.share * recording_.optimizer_seconds);
    ShareParameters();
    return std::move(program_);
  }

 private:
  double ShareOf(size_t i) const {
    return static_cast<double>(recording_.parameters[i].bytes) / static_cast<double>(recording_.TrainableBytes());
  }
  // To add one gradient of it to another.
  double AddSeconds(size_t i) const {
    return owners_[i] >= 0 && recording_.parameters[i].reached ? ShareOf(i) * recording_.add_seconds : 0;
  }
  double AddSecondsOfAll() const {
    double seconds = 0;
    for (size_t i = 0; i < owners_.size(); ++i) seconds += AddSeconds(i);
    return seconds;
  }

  void Append(const RankOp& op) { program_.ops.push_back(op); }
  void Compute(double seconds) { Append({.kind = Kind::kCompute, .amount = seconds}); }
  void Send(int to, Traffic traffic, size_t parameter, double bytes) {
    Append({Kind::kSend, traffic, to, static_cast<int32_t>(parameter), bytes});
  }
  void Receive(int from, Traffic traffic, size_t parameter) {
    Append({Kind::kReceive, traffic, from, static_cast<int32_t>(parameter), 0});
  }

  // The additions of the tree after each of the rank's own parts, and then, as an owner, after each node of others:
  // those become what it expects. Nodes come in the order of ranks, of parameters as RankReducer has them.
  std::vector<int64_t> AdditionsAfter(const std::vector<int64_t>& mine) {
    int64_t made = 0;
    PartTree<CountedSum> tree(parts_);
    std::vector<int64_t> own;
    for (const int64_t part : mine) {
      made = 0;
      tree.Add({0, part, {&made}});
      own.push_back(made);
    }
    struct Other {
      int from;
      int64_t additions;
    };
    std::vector<Other> others;
    for (int from = 0; from < ranks_; ++from) {
      if (from == rank_) continue;
      for (const PartNode& node : nodes_[static_cast<size_t>(from)]) {
        made = 0;
        tree.Add({node.level, node.index, {&made}});
        others.push_back({from, made});
      }
    }
    for (size_t i = owners_.size(); i-- > 0;) {
      if (owners_[i] != rank_) continue;
      for (const Other& other : others) {
        program_.expected.push_back(
            {other.from, static_cast<int32_t>(i), static_cast<double>(other.additions) * AddSeconds(i)});
      }
    }
    return own;
  }

  // RankGroup::AllGather: through rank 0, one message after another, each in two: its size and its bytes.
  template <typename SizeOf>
  void AllGather(Traffic traffic, SizeOf size_of) {
    const auto send = [&](int to, size_t bytes) {
      Send(to, traffic, 0, sizeof(uint64_t));
      Send(to, traffic, 0, static_cast<double>(bytes));
    };
    const auto receive = [&](int from) {
      for (int message = 0; message < 2; ++message) Receive(from, traffic, 0);
    };
    if (rank_ != 0) {
      send(0, size_of(rank_));
      receive(0);
      return;
    }
    size_t joined = 0;  // each text after its length
    for (int rank = 0; rank < ranks_; ++rank) joined += sizeof(int64_t) + size_of(rank);
    for (int rank = 1; rank < ranks_; ++rank) receive(rank);
    for (int rank = 1; rank < ranks_; ++rank) send(rank, joined);
  }

  // Of the rank's last part. Each gradient leaves as soon as it is complete.
  void Backward(int64_t additions) {
    double passed = 0;
    for (const size_t i : completed_) {
      const RecordedParameter& parameter = recording_.parameters[i];
      Compute(parameter.seconds - passed + static_cast<double>(additions) * AddSeconds(i));
      passed = parameter.seconds;
      if (owners_[i] < 0) continue;
      if (owners_[i] != rank_) {
        for (size_t node = 0; node < nodes_[static_cast<size_t>(rank_)].size(); ++node) {
          Send(owners_[i], Traffic::kGradient, i, parameter.reached ? static_cast<double>(parameter.bytes) : 0);
        }
      }
      Append({.kind = Kind::kTakeArrived});
    }
    Compute(recording_.backward_seconds - passed);
    Append({.kind = Kind::kBackwardEnds});
  }

  void ShareParameters() {
    for (size_t i = 0; i < owners_.size(); ++i) {
      if (owners_[i] != rank_) continue;
      for (int step = 1; step < ranks_; ++step) {
        Send((rank_ + step) % ranks_, Traffic::kWeight, i, static_cast<double>(recording_.parameters[i].bytes));
      }
    }
    for (size_t i = 0; i < owners_.size(); ++i) {
      if (owners_[i] >= 0 && owners_[i] != rank_) Receive(owners_[i], Traffic::kWeight, i);
    }
  }

  const StepRecording& recording_;
  int ranks_;
  int64_t parts_;
  std::vector<int> owners_;
  std::vector<size_t> completed_;             // parameters in the order in which gradients become complete
  std::vector<Owned> owned_;                  // by rank
  std::vector<std::vector<PartNode>> nodes_;  // by rank
  int rank_ = 0;
  RankProgram program_;
};

}  // namespace

std::vector<int> OwnersOf(const StepRecording& recording, int ranks) {
  const ContextScope no_values(&OpContext::shapes_only, true);
  std::vector<NamedParameter> parameters;
  for (const RecordedParameter& one : recording.parameters) {
    parameters.push_back({.name = one.name,
                          .value = Variable(Tensor::Empty({one.elements}, DType::kFloat32)),
                          .matrix_shape = {},
                          .trainable = one.trainable});
  }
  return OwnersOf(parameters, ranks);
}

std::vector<RankProgram> MakePrograms(const StepRecording& recording, int ranks, int64_t parts) {
  Programs programs(recording, ranks, parts);
  std::vector<RankProgram> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(programs.Of(rank));
  return all;
}

std::vector<RankProgram> SmallMessagesOf(const std::vector<RankProgram>& programs) {
  std::vector<RankProgram> small;
  for (const RankProgram& program : programs) {
    RankProgram& kept = small.emplace_back();
    for (const RankOp& op : program.ops) {
      const bool message = op.kind == Kind::kSend || op.kind == Kind::kReceive;
      if (message && op.traffic <= Traffic::kSquares) kept.ops.push_back(op);
    }
  }
  return small;
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
