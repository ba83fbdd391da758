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
#include <string>
#include <vector>

#include "tools/lab/simulate/rank_program.h"

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
