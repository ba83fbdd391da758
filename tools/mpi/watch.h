// SilenceWatch: when each rank was last heard, by a clock that runs only while this process does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace crosstalk::mpi {

class SilenceWatch {
 public:
  // 0 seconds: no rank is ever lost.
  SilenceWatch(int ranks, double timeout_seconds)
      : timeout_seconds_(timeout_seconds), heard_(static_cast<size_t>(ranks)) {}

  // The seconds since the last call. A process that was stopped has heard nobody meanwhile, and that says nothing of
  // the others: so a call counts for at most kMostSeconds.
  void Advance(double seconds) { clock_ += std::min(seconds, kMostSeconds); }
  void Hear(int rank) { heard_[static_cast<size_t>(rank)] = clock_; }
  bool IsLost(int rank) const {
    return timeout_seconds_ > 0 && clock_ - heard_[static_cast<size_t>(rank)] > timeout_seconds_;
  }

 private:
  static constexpr double kMostSeconds = 0.1;

  double timeout_seconds_;
  double clock_ = 0;
  std::vector<double> heard_;  // by rank
};

}  // namespace crosstalk::mpi
