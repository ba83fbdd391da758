// What the preloaded library has been told to do. CROSSTALK_FAULT names one fault by the number of the call that it
// hits, counted from main() on, each target by itself:
//
//   file:17:EIO          the main thread's 17th file call fails with that error (ENOSPC, EIO, EINTR, EACCES, …)
//   file:17:ENOSPC:on    it and all later ones, of any thread, that can fail so
//   file:17:short        the read or write stops half way
//   file:17:kill-before  the process is killed instead of the call, or after it
//   file:17:kill-after
//   memory:17            the main thread's 17th allocation fails
//   memory:17:on         it and all later ones, of any thread
//   thread-file:17:…     the same of the other threads
//   thread-memory:17
//
// Without it nothing fails. CROSSTALK_FAULT_REPORT names a file that gets a line for each file call and at the end the
// numbers of allocations. CROSSTALK_FAULT_ROOT names the folder whose files and folders count; all others are left
// alone.
#pragma once

#include <errno.h>

#include <cstdint>

namespace faults {

enum class Target { kNothing, kFile, kThreadFile, kMemory, kThreadMemory };
enum class Action { kError, kShort, kKillBefore, kKillAfter };

template <typename T>
struct Named {
  const char* name;
  T value;
};
constexpr Named<int> kErrors[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},       {"EINTR", EINTR},
                                  {"EACCES", EACCES}, {"EMFILE", EMFILE}, {"ENOMEM", ENOMEM}};

struct Fault {
  Target target = Target::kNothing;
  int64_t number = 0;  // from 1
  Action action = Action::kError;
  int error = 0;
  bool onwards = false;
};

// The library's own exit code where it cannot do its work: no variable that it understands, or a system that does not
// let it see the calls.
constexpr int kCannotInject = 98;

const Fault& TheFault();
bool InMainThread();
// Says why, and ends the process.
[[noreturn]] void CannotInject(const char* why);

// From here on calls are counted. The report is written to `report`, a descriptor, unless that is negative.
void StartFiles(const char* root, int report);

}  // namespace faults
