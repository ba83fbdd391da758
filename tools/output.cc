#include "tools/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace crosstalk {

namespace {

bool line_stands = false;  // a progress line is on the terminal, without a line end

// A line that the terminal would wrap could not be rewritten.
size_t TerminalWidth() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) return size.ws_col - 1;
  return 79;
}

}  // namespace

bool ErrorIsTerminal() {
  static const bool is_terminal = [] {
    const char* term = std::getenv("TERM");
    return isatty(STDERR_FILENO) == 1 && (term == nullptr || std::strcmp(term, "dumb") != 0);
  }();
  return is_terminal;
}

bool ColourWanted() {
  const char* no_color = std::getenv("NO_COLOR");
  return no_color == nullptr || *no_color == '\0';
}

std::string Bold(const std::string& text) {
  return ErrorIsTerminal() && ColourWanted() ? "\033[1m" + text + "\033[0m" : text;
}

void ClearProgressLine() {
  if (!line_stands) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  line_stands = false;
}

void ShowProgressLine(const std::string& line) {
  std::fprintf(stderr, "\r\033[K%s", line.substr(0, TerminalWidth()).c_str());
  std::fflush(stderr);
  line_stands = true;
}

void PrintMessage(const std::string& line) {
  ClearProgressLine();
  std::fprintf(stderr, "%s\n", line.c_str());
  std::fflush(stderr);
}

void PrintError(const char* message, const char* rest) {
  ClearProgressLine();
  std::fprintf(stderr, ErrorIsTerminal() && ColourWanted() ? "\033[1;31merror:\033[0m %s%s\n" : "error: %s%s\n",
               message, rest);
  std::fflush(stderr);
}

void PrintResult(const std::string& text) {
  ClearProgressLine();
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    const bool no_room = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
    Fail(no_room ? ErrorKind::kResource : ErrorKind::kFailure,
         "standard output: cannot write the result: ", errno == EBADF ? "it is closed" : std::strerror(errno));
  }
}

void PrintResult(const Json& value) { PrintResult(value.Dump() + "\n"); }

}  // namespace crosstalk
