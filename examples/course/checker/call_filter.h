// The filter of system calls (seccomp) of a process that only computes.
#pragma once

namespace course {

// From here on this process and its threads start no process or program, send no signal to others, change no file and
// open no connection: such calls fail. Throws std::runtime_error where the system has no filters. It cannot be undone.
void FilterCalls();

}  // namespace course
