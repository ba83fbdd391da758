#include "tools/lab/simulate/network.h"

#include <cmath>
#include <cstdlib>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/option_table.h"
#include "tools/page/axis.h"

namespace crosstalk {
namespace {

// Of messages over TCP, a system call and an interrupt at either end.
constexpr double kOverhead = 5e-6;

// Bytes a second are the nominal speed less TCP's overhead, latencies those of a switch and two hosts.
const Network kNamed[] = {{"1GbE", 50e-6, 0.115e9, kOverhead},
                          {"10GbE", 30e-6, 1.1e9, kOverhead},
                          {"25GbE", 20e-6, 2.8e9, kOverhead},
                          {"100GbE", 15e-6, 11e9, kOverhead}};

}  // namespace

Network ParseNetwork(const std::string& text) {
  std::vector<std::string> names;
  for (const Network& network : kNamed) {
    if (network.name == text) return network;
    names.push_back(network.name);
  }
  const std::vector<std::string> parts = Split(text, '/');
  CROSSTALK_CHECK_FIELD(parts.size() == 2 || parts.size() == 3, "network", Excerpt(text), " is none of ",
                        Join(names, ", "), ", and not BANDWIDTH/LATENCY in GB/s and µs, such as 1.1/50",
                        DidYouMean(text, names));
  double numbers[3] = {0, 0, 1e6 * kOverhead};
  for (size_t i = 0; i < parts.size(); ++i) {
    numbers[i] = FieldValue("network", FieldType::kDouble, parts[i]).AsDouble();
    const bool fits = std::isfinite(numbers[i]) && numbers[i] <= 1e9 && (i == 0 ? numbers[i] >= 1e-6 : numbers[i] >= 0);
    CROSSTALK_CHECK_FIELD(fits, "network", Excerpt(text), ": ", Excerpt(parts[i]),
                          i == 0 ? " is no bandwidth in GB/s" : " is no time in µs");
  }
  return {text, 1e-6 * numbers[1], 1e9 * numbers[0], 1e-6 * numbers[2]};
}

std::string Describe(const Network& network) {
  return StrCat(network.name, " (", ShortNumber(1e-9 * network.bytes_per_second), " GB/s, ",
                ShortNumber(1e6 * network.latency), " µs, ", ShortNumber(1e6 * network.overhead), " µs a message)");
}

}  // namespace crosstalk
