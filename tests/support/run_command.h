// Runs the built `crosstalk` command as a user does: a process of its own, its output captured in files.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

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
  std::vector<std::string> environment;  // "NAME=value", beside what the test has
  unsigned most_seconds = 0;             // then SIGALRM ends it; 0: no limit
  uint64_t max_file_bytes = 0;           // RLIMIT_FSIZE: a write beyond it fails as on a full disk; 0: no limit
  uint64_t max_address_bytes = 0;        // RLIMIT_AS; 0: no limit
  std::string input_from = "/dev/null";  // the file that standard input reads
  std::string output_to;                 // where standard output goes instead of being captured ("/dev/full")
  std::vector<int> closed;               // descriptors that are closed when it starts: 0, 1 or 2
};

// A command under way. Its destructor kills and waits.
class RunningCommand {
 public:
  explicit RunningCommand(const std::vector<std::string>& arguments, const CommandOptions& options = {});
  ~RunningCommand();
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;

  void Signal(int number) const;
  bool Running();  // still
  CommandResult Wait();

 private:
  const TempDir folder_;  // holds its output
  std::string output_path_;
  pid_t process_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

CommandResult RunCommand(const std::vector<std::string>& arguments, const CommandOptions& options = {});

}  // namespace crosstalk
