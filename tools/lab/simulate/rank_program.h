// Each rank's work in a training step, as a list of operations: the calls of RankReducer and RankGroup, with the
// seconds of a recording instead of the computation.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/lab/simulate/recording.h"

namespace crosstalk {

// The purpose of messages. Counts, losses and squares are small, and go through rank 0.
enum class Traffic : uint8_t { kCounts, kLosses, kSquares, kGradient, kWeight };
inline constexpr int kTraffics = 5;

struct RankOp {
  enum class Kind : uint8_t {
    kCompute,       // for `amount` seconds
    kSend,          // `amount` bytes to `peer`; goes on at once
    kReceive,       // waits for the next message of `peer`
    kTakeArrived,   // adds the expected gradients that are there, in their order, up to the first that is not
    kTakeAll,       // the same, waiting for each
    kBackwardEnds,  // from here on an exchange of gradients overlaps with nothing
  };
  Kind kind;
  Traffic traffic = Traffic::kCounts;
  int32_t peer = 0;
  int32_t parameter = 0;
  double amount = 0;
};

// A gradient that an owner gets from another rank, and how long it then adds.
struct ExpectedGradient {
  int32_t from;
  int32_t parameter;
  double add_seconds;
};

struct RankProgram {
  std::vector<RankOp> ops;
  std::vector<ExpectedGradient> expected;  // in the order in which they are taken
};

// Of every rank, for a step of `parts` parts as the recorded ones are. 1 ≤ ranks ≤ parts.
std::vector<RankProgram> MakePrograms(const StepRecording& recording, int ranks, int64_t parts);

// What is left of them without computing, gradients and weights: counts, losses and squares, one after another.
std::vector<RankProgram> SmallMessagesOf(const std::vector<RankProgram>& programs);

// The owner of each recorded parameter; -1: none.
std::vector<int> OwnersOf(const StepRecording& recording, int ranks);

// Weights, gradients, and the optimizer's state of what the rank with the most of it owns; no activations.
int64_t RankMemoryBytes(const StepRecording& recording, int ranks, int64_t parts);

}  // namespace crosstalk
