// Replay: the ranks of a recorded step on a network, by discrete events.
//
//   Each rank has one link, which takes messages in both directions at once, in each one after another. A message of b
//   bytes keeps a direction busy for w = o + b/β seconds. It leaves at
//       out = max(when it is sent, when the sender's link is free),  and the link is free again at out + w,
//   its first byte reaches the receiver α later, and it has arrived at
//       max(out + α, when the receiver's link is free) + w:
//   alone on its way, α + o + b/β after it was sent. Messages reach a link in the order of out + α, and those of one
//   moment in the order in which they were sent. The switch between the links is never full.
//
// A rank is a thread that runs RankReducer itself; its clock is the replay's, and one rank runs at a time. It does its
// work in order, and messages travel meanwhile. The same recording gives the same seconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "crosstalk/models/training/ranks/rank_group.h"
#include "tools/lab/simulate/recording.h"

namespace crosstalk {

// Network: what joins the ranks, as three numbers.

// A message of b bytes alone on its way takes α + o + b/β seconds.
struct Network {
  std::string name;
  double latency = 0;           // α: seconds from one rank to another
  double bytes_per_second = 0;  // β: of a link in each direction
  double overhead = 0;          // o: seconds for which a message keeps a direction of a link busy, beside its bytes

  double Occupancy(double bytes) const { return overhead + bytes / bytes_per_second; }
};

// "1GbE", "10GbE", "25GbE", "100GbE", or BANDWIDTH/LATENCY or BANDWIDTH/LATENCY/OVERHEAD in GB/s and µs. Error(kUsage)
// of "network".
Network ParseNetwork(const std::string& text);
// The names, with their meaning: "10GbE (1.1 GB/s, 30 µs, 5 µs a message)".
std::string Describe(const Network& network);

// The purpose of messages. Counts, losses and squares are small, and go through rank 0.
enum class Traffic : uint8_t { kCounts, kLosses, kSquares, kGradient, kWeight };
inline constexpr int kTraffics = 5;

struct ReplayResult {
  double seconds = 0;  // until every rank has ended
  int64_t messages = 0;
  std::vector<double> sent_bytes;  // by rank: gradients and weights
  double gradient_bytes = 0;       // of all ranks
  double hidden_bytes = 0;         // of them, those that arrived while their receiver's backward was under way
  // Seconds that a rank spent waiting for such messages, the mean over ranks.
  std::array<double, kTraffics> waited_seconds = {};
};

// A rank's transport. The network takes a message as soon as it is sent. It carries the bytes of small messages; of
// tensors, under RankGroup's free tags, their number alone.
class ReplayedRank : public Transport {
 public:
  // Seconds that pass before the rank's next message.
  virtual void Compute(double seconds) = 0;
  // The purpose of small messages from here on. With kSquares tensors become weights; before they are gradients.
  virtual void Gather(Traffic purpose) = 0;
  // From here on an exchange of gradients overlaps with nothing.
  virtual void EndBackward() = 0;
};

enum class Replayed {
  kAll,
  kSmallMessages,  // computing takes no time, and tensors neither time nor a link
};

// Runs `body` for each rank. Its first error, and Error(kFailure) where a rank waits for a message that nobody sends.
ReplayResult Replay(int ranks, const Network& network, Replayed what,
                    const std::function<void(ReplayedRank& rank)>& body);

// RankReducer's step on every rank, of `parts` parts as the recorded ones are. 1 ≤ ranks ≤ parts.
ReplayResult ReplayStep(const StepRecording& recording, int ranks, int64_t parts, const Network& network,
                        Replayed what = Replayed::kAll);

// The owner of each recorded parameter; -1: none.
std::vector<int> OwnersOf(const StepRecording& recording, int ranks);

// Weights, gradients, and the optimizer's state of what the rank with the most of it owns; no activations.
int64_t RankMemoryBytes(const StepRecording& recording, int ranks, int64_t parts);

}  // namespace crosstalk
