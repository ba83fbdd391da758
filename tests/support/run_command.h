// Runs the built `crosstalk` command as a user does: a process of its own, its output captured in files.
#pragma once

#include <string>
#include <vector>

namespace crosstalk {

// CROSSTALK_BINARY, or BUILD/crosstalk beside the test program's own BUILD/tests/….
std::string CrosstalkBinary();

struct CommandResult {
  int exit_code = 0;  // 128 + the signal that ended it
  bool signalled = false;
  std::string output;  // standard output
  std::string errors;  // standard error
};

struct CommandOptions {
  std::string program;                   // another one than the command
  std::vector<std::string> environment;  // "NAME=value", beside the test's, without OPENBLAS_CORETYPE
  unsigned most_seconds = 0;             // then SIGALRM ends it; 0: no limit
};

// With an empty standard input, to its end.
CommandResult RunCommand(const std::vector<std::string>& arguments, const CommandOptions& options = {});

}  // namespace crosstalk
