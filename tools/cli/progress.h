// What a command shows and heeds while it works: a line of progress, and the signals that stop it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "tools/cli/output.h"

namespace crosstalk {

// The progress line of long commands: one line that is rewritten on a terminal, now and then a plain line off it.

// Shows the newest of many lines. On a terminal each replaces the last, at most ten times a second; off it a line is
// written when the last one is `plain_interval` old. Last() always shows.
class Progress {
 public:
  explicit Progress(std::chrono::milliseconds plain_interval = std::chrono::seconds(10))
      : plain_interval_(plain_interval) {}
  ~Progress() { ClearProgressLine(); }

  void Update(const std::string& line);
  // "WHAT 128 of 408": an Update; off a terminal the last one, 408 of 408, always follows where another was shown.
  void Count(const std::string& what, int64_t done, int64_t total);
  // A line that stays.
  void Last(const std::string& line);

 private:
  std::chrono::milliseconds plain_interval_;
  bool shown_ = false;  // a line of Update, off a terminal
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now() - std::chrono::hours(1);
};

// SIGINT and SIGTERM as a request to stop: the first one is noted, a second one ends the process at once.

// From construction to destruction the two signals only set a flag; then what was before is put back. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal that came last, or 0. Exit code of a command that it interrupted: 128 + its number.
  static int Received();
};

// A closed pipe or a limit on the size of files is an error of the write that met it, not the end of the process.
void IgnoreWriteSignals();

}  // namespace crosstalk
