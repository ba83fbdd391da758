// Network: what joins the ranks, as three numbers.
#pragma once

#include <string>
#include <vector>

namespace crosstalk {

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

}  // namespace crosstalk
