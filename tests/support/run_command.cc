#include "tests/support/run_command.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string_view>

#include "crosstalk/runtime/atomic_file.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {

std::string CrosstalkBinary() {
  if (const char* binary = std::getenv("CROSSTALK_BINARY")) return binary;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  for (auto folder = self.parent_path(); folder != folder.root_path(); folder = folder.parent_path()) {
    if (folder.filename() == "tests") return (folder.parent_path() / "crosstalk").string();
  }
  throw std::runtime_error("set CROSSTALK_BINARY to the path of the crosstalk command");
}

CommandResult RunCommand(const std::vector<std::string>& arguments, const CommandOptions& options) {
  const TempDir folder;
  const std::string output_path = folder / "output", errors_path = folder / "errors";
  const std::string binary = options.program.empty() ? CrosstalkBinary() : options.program;
  // Everything is made ready before the fork: the child only calls what is safe there.
  std::vector<std::string> words = {binary}, variables = options.environment;
  words.insert(words.end(), arguments.begin(), arguments.end());
  // `bench` warns of OPENBLAS_CORETYPE, which some systems set.
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("OPENBLAS_CORETYPE=")) variables.push_back(*variable);
  }
  const auto pointers_to = [](std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (std::string& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
    return pointers;
  };
  const std::vector<char*> word_pointers = pointers_to(words), variable_pointers = pointers_to(variables);
  const pid_t process = fork();
  if (process < 0) throw std::runtime_error("cannot fork");
  if (process > 0) {
    int status = 0;
    if (waitpid(process, &status, 0) != process) throw std::runtime_error("cannot wait for the command");
    const bool signalled = WIFSIGNALED(status);
    return {.exit_code = signalled ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
            .signalled = signalled,
            .output = ReadFile(output_path),
            .errors = ReadFile(errors_path)};
  }
  const int output = open(output_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int errors = open(errors_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int input = open("/dev/null", O_RDONLY);
  if (output < 0 || errors < 0 || input < 0) _exit(126);
  dup2(input, 0);
  dup2(output, 1);
  dup2(errors, 2);
  for (const int descriptor : {input, output, errors}) {
    if (descriptor > 2) close(descriptor);
  }
  if (options.most_seconds > 0) alarm(options.most_seconds);
  execve(binary.c_str(), word_pointers.data(), variable_pointers.data());
  _exit(127);
}

}  // namespace crosstalk
