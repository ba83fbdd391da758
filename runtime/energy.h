// Energy that the processor has taken, where Linux shows its counters (powercap's intel-rapl, which AMD's have too) and
// this process may read them: mostly as root, and not in virtual machines. Of whole processors, for all processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

class EnergyMeter {
 public:
  // `folder`: where the counters are.
  explicit EnergyMeter(const std::string& folder = "/sys/class/powercap");

  // Joules since the last call, or since the meter was made; none where there is no counter, or one cannot be read. A
  // counter wraps around after some hundred kilojoules: at 100 W each half an hour, and no more than once between two
  // calls is seen.
  std::optional<double> Joules();

 private:
  struct Counter {
    std::string file;
    int64_t range = 0;  // microjoules at which it wraps around
    int64_t last = 0;
  };
  std::vector<Counter> counters_;
};

}  // namespace crosstalk
