// Replay: the ranks' programs on a network, by discrete events.
//
//   Each rank has one link, which takes messages in both directions at once, in each one after another. A message of b
//   bytes keeps a direction busy for w = o + b/β seconds. It leaves at
//       out = max(when it is sent, when the sender's link is free),  and the link is free again at out + w,
//   its first byte reaches the receiver α later, and it has arrived at
//       max(out + α, when the receiver's link is free) + w:
//   alone on its way, α + o + b/β after it was sent. Messages reach a link in the order of out + α, and those of one
//   moment in the order in which they were sent. The switch between the links is never full.
//
// A rank does its operations one after another, and messages travel meanwhile. The same programs give the same seconds.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tools/lab/simulate/network.h"
#include "tools/lab/simulate/rank_program.h"

namespace crosstalk {

struct ReplayResult {
  double seconds = 0;  // until every rank has done its program
  int64_t messages = 0;
  std::vector<double> sent_bytes;  // by rank: gradients and weights
  double gradient_bytes = 0;       // of all ranks
  double hidden_bytes = 0;         // of them, those that arrived while their receiver's backward was under way
  // Seconds that a rank spent waiting for such messages, the mean over ranks.
  std::array<double, kTraffics> waited_seconds = {};
};

// Error(kFailure) where the programs wait for messages that nobody sends.
ReplayResult Replay(const std::vector<RankProgram>& programs, const Network& network);

}  // namespace crosstalk
