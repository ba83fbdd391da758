// How a process among ranks ends: with a line, an exit code, and the other ranks; in time even where MPI hangs.
#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <string_view>

namespace crosstalk::mpi {

// After MPI_Abort, before this process ends in any case.
inline constexpr std::chrono::seconds kAbortTime(5);

// What MPI says of its error code; an exception with it, unless the code is MPI_SUCCESS.
std::string TextOf(int code);
void Check(int code);

// On standard error, in one piece: "crosstalk: …".
__attribute__((format(printf, 1, 2))) void PrintLine(const char* format, ...);

// Ends this process with a line and an exit code when its time is over, unless it is cancelled before. By a signal, not
// by a thread: what a process ends of may be that the system has no thread to give.
class Deadline {
 public:
  static void Set(std::chrono::duration<double> time, int code, std::string_view line);
  static void Cancel();
};

[[noreturn]] void EndAllRanks(int code);

// The exit code that says what kind of error it is, as the command's: 5 if there is no memory or thread, else 1.
int CodeOf(const std::exception& error);

}  // namespace crosstalk::mpi
