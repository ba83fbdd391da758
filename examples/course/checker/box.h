// A process of its own for what somebody else wrote, with limits, from which nothing is left: it cannot end, slow down
// or read what is not its own. Of Linux it takes namespaces and a filter of system calls, as far as they are offered.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace course {

struct Box {
  std::vector<std::string> hidden;  // folders that are empty in it
  std::string shown;                // a folder that is there all the same; empty: none
  std::string writable;             // the only folder to write in; empty: none
  // It computes alone: it starts no program or process, sends no signal, opens no file to write and no connection.
  bool computes = false;
  uint64_t milliseconds = 0;    // from start to end; processor time may be twice as long, on two threads
  uint64_t bytes = UINT64_MAX;  // of addresses
  bool echo = false;            // what it prints appears on standard output as well
  int input = -1;               // a descriptor that it has as kInput; none else of the caller's
};
inline constexpr int kInput = 4;

struct Ended {
  int status = 0;  // as of waitpid
  bool out_of_time = false, printed_too_much = false;
  std::string output;  // on both streams, at most kMostOutput
  std::string answer;  // what it wrote to the descriptor that it was given
};
inline constexpr uint64_t kMostOutput = 1 << 20, kMostAnswer = 64 << 20;

// Runs body(descriptor of the answer) in a child process, and ends all that this started. The caller has one thread and
// no other children. Throws std::runtime_error where no process can be started.
Ended RunBoxed(const Box& box, const std::function<void(int answer)>& body);

// To a pipe, until all is written or nobody reads it any more.
void WriteWhole(int descriptor, std::string_view bytes);

// What this system does not offer, and what follows, in sentences; empty: all is there. The first call tries it out,
// and no box uses what failed then.
const std::vector<std::string>& LacksOfSystem();

// For tests: as on a system that does not offer "namespaces", or no "filter" of calls.
void DoWithout(const std::string& part);

}  // namespace course
