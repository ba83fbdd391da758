// SIGINT and SIGTERM as a request to stop: the first one is noted, a second one ends the process at once.
#pragma once

namespace crosstalk {

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
