#include "tests/support/run_command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "crosstalk/runtime/atomic_file.h"

namespace crosstalk {

std::string CrosstalkBinary() {
  if (const char* binary = std::getenv("CROSSTALK_BINARY")) return binary;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  for (auto folder = self.parent_path(); folder != folder.root_path(); folder = folder.parent_path()) {
    if (folder.filename() == "tests") return (folder.parent_path() / "crosstalk").string();
  }
  throw std::runtime_error("set CROSSTALK_BINARY to the path of the crosstalk command");
}

RunningCommand::RunningCommand(const std::vector<std::string>& arguments, const CommandOptions& options) {
  output_path_ = options.output_to.empty() ? folder_ / "output" : options.output_to;
  const std::string errors_path = folder_ / "errors";
  const std::string binary = options.program.empty() ? CrosstalkBinary() : options.program;
  // Everything is made ready before the fork: the child only calls what is safe there.
  std::vector<std::string> words = {binary}, variables = options.environment;
  words.insert(words.end(), arguments.begin(), arguments.end());
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  const auto pointers_to = [](std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (std::string& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
    return pointers;
  };
  const std::vector<char*> word_pointers = pointers_to(words), variable_pointers = pointers_to(variables);
  process_ = fork();
  if (process_ < 0) throw std::runtime_error("cannot fork");
  if (process_ > 0) return;
  const int output = open(output_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int errors = open(errors_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int input = open(options.input_from.c_str(), O_RDONLY);
  if (output < 0 || errors < 0 || input < 0) _exit(126);
  dup2(input, 0);
  dup2(output, 1);
  dup2(errors, 2);
  for (const int descriptor : {input, output, errors}) {
    if (descriptor > 2) close(descriptor);
  }
  for (const int descriptor : options.closed) close(descriptor);
  const auto limit = [](auto resource, uint64_t most) {
    const rlimit both = {most, most};
    if (most > 0) setrlimit(resource, &both);
  };
  limit(RLIMIT_FSIZE, options.max_file_bytes);
  limit(RLIMIT_AS, options.max_address_bytes);
  if (options.most_seconds > 0) alarm(options.most_seconds);
  execve(binary.c_str(), word_pointers.data(), variable_pointers.data());
  _exit(127);
}

RunningCommand::~RunningCommand() {
  if (!Running()) return;
  Signal(SIGKILL);
  Wait();
}

void RunningCommand::Signal(int number) const {
  if (!ended_) kill(process_, number);
}

bool RunningCommand::Running() {
  if (!ended_ && waitpid(process_, &status_, WNOHANG) == process_) ended_ = true;
  return !ended_;
}

CommandResult RunningCommand::Wait() {
  if (!ended_) {
    if (waitpid(process_, &status_, 0) != process_) throw std::runtime_error("cannot wait for the command");
    ended_ = true;
  }
  CommandResult result;
  result.signalled = WIFSIGNALED(status_);
  result.exit_code = result.signalled ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  if (std::filesystem::is_regular_file(output_path_)) result.output = ReadFile(output_path_);
  result.errors = ReadFile(folder_ / "errors");
  return result;
}

CommandResult RunCommand(const std::vector<std::string>& arguments, const CommandOptions& options) {
  return RunningCommand(arguments, options).Wait();
}

}  // namespace crosstalk
