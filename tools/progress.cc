#include "tools/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "crosstalk/runtime/check.h"
#include "tools/output.h"

namespace crosstalk {

namespace {

bool line_stands = false;  // a progress line is on the terminal, without a line end

bool ColourWanted() {
  const char* no_color = std::getenv("NO_COLOR");
  return ErrorIsTerminal() && (no_color == nullptr || *no_color == '\0');
}

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

std::string Bold(const std::string& text) { return ColourWanted() ? "\033[1m" + text + "\033[0m" : text; }
std::string Red(const std::string& text) { return ColourWanted() ? "\033[1;31m" + text + "\033[0m" : text; }

void ClearProgressLine() {
  if (!line_stands) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  line_stands = false;
}

void Progress::Update(const std::string& line) {
  const auto now = std::chrono::steady_clock::now();
  const auto interval = ErrorIsTerminal() ? std::chrono::milliseconds(100) : plain_interval_;
  if (now - last_ < interval) return;
  last_ = now;
  if (!ErrorIsTerminal()) {
    PrintMessage(line);
    return;
  }
  std::fprintf(stderr, "\r\033[K%s", line.substr(0, TerminalWidth()).c_str());
  std::fflush(stderr);
  line_stands = true;
}

void Progress::Last(const std::string& line) {
  last_ = std::chrono::steady_clock::now();
  PrintMessage(line);
}

std::string DurationText(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "?";
  const int64_t whole = std::llround(seconds);
  char text[64];
  if (whole < 60) {
    std::snprintf(text, sizeof text, "%d s", static_cast<int>(whole));
  } else if (whole < 3600) {
    std::snprintf(text, sizeof text, "%d min %02d s", static_cast<int>(whole / 60), static_cast<int>(whole % 60));
  } else {
    std::snprintf(text, sizeof text, "%d h %02d min", static_cast<int>(whole / 3600),
                  static_cast<int>(whole % 3600 / 60));
  }
  return text;
}

std::string CountText(int64_t count) {
  const std::string digits = StrCat(count < 0 ? -count : count);
  std::string text = count < 0 ? "-" : "";
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string FixedText(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string BytesText(int64_t bytes) {
  const char* units[] = {"bytes", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 999.5 && unit < 4) value /= 1000, ++unit;
  return FixedText(value, unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2) + " " + units[unit];
}

}  // namespace crosstalk
