#include "tools/cli/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/file_calls.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

namespace {

constexpr std::string_view kBoldOn = "\033[1m", kBoldOff = "\033[0m", kShownControl = "\uFFFD";

// Bytes of the control character at text[i], 0 if there is none.
size_t ControlLength(std::string_view text, size_t i) {
  const auto byte = static_cast<unsigned char>(text[i]);
  if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0) return 2;
  return byte == 0x7F || (byte < 0x20 && byte != '\n' && byte != '\t') ? 1 : 0;
}

size_t BoldLength(std::string_view text, size_t i) {
  const std::string_view rest = text.substr(i);
  if (rest.starts_with(kBoldOn)) return kBoldOn.size();
  return rest.starts_with(kBoldOff) ? kBoldOff.size() : 0;
}

enum class BoldSwitches { kReplaced, kKept };

// Puts the parts of a text that a terminal may be given. Needs no memory.
template <typename Put>
void PutWithoutControls(std::string_view text, BoldSwitches bold, const Put& put) {
  size_t done = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t control = ControlLength(text, i);
    const size_t kept = bold == BoldSwitches::kKept ? BoldLength(text, i) : 0;
    if (control == 0 || kept > 0) {
      i += std::max<size_t>(kept, 1);
      continue;
    }
    put(text.substr(done, i - done));
    if (text[i] != '\r') put(kShownControl);
    done = i += control;
  }
  put(text.substr(done));
}

// Whole if the output is no terminal.
void PutMessage(std::string_view text) {
  const auto put = [](std::string_view part) { std::fwrite(part.data(), 1, part.size(), stderr); };
  if (isatty(STDERR_FILENO) == 1) {
    PutWithoutControls(text, BoldSwitches::kKept, put);
  } else {
    put(text);
  }
}

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
  return ErrorIsTerminal() && ColourWanted() ? StrCat(kBoldOn, text, kBoldOff) : text;
}

std::string WithoutControls(std::string_view text) {
  std::string plain;
  PutWithoutControls(text, BoldSwitches::kReplaced, [&](std::string_view part) { plain += part; });
  return plain;
}

void ClearProgressLine() {
  if (!line_stands) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  line_stands = false;
}

void ShowProgressLine(const std::string& line) {
  std::fputs("\r\033[K", stderr);
  PutMessage(std::string_view(line).substr(0, TerminalWidth()));
  std::fflush(stderr);
  line_stands = true;
}

void PrintMessage(const std::string& line) {
  ClearProgressLine();
  PutMessage(line);
  std::fputc('\n', stderr);
  std::fflush(stderr);
}

void PrintError(const char* message, const char* rest) {
  ClearProgressLine();
  std::fputs(ErrorIsTerminal() && ColourWanted() ? "\033[1;31merror:\033[0m " : "error: ", stderr);
  for (const char* part : {message, rest}) PutMessage(part);
  std::fputc('\n', stderr);
  std::fflush(stderr);
}

void CheckOutput(const char* option, const std::string& path, std::string_view begin) {
  const PathKind kind = KindOf(path);
  if (kind == PathKind::kNothing) {
    const std::string folder = ParentOf(path);
    CROSSTALK_CHECK(KindOf(folder) == PathKind::kDirectory, option, " ", path, ": there is no folder ", folder,
                    "; make it, or choose another place");
  } else {
    CROSSTALK_CHECK(kind == PathKind::kFile, option, " ", path, ": is not a file; choose another name");
    if (!begin.empty()) {
      const FileReader file(path);
      std::string found(std::min<uint64_t>(file.size(), begin.size()), '\0');
      file.ReadAt(0, found.data(), found.size());
      CROSSTALK_CHECK(found.empty() || found == begin, option, " ", path,
                      ": is there, and nothing that this command has written; choose another name");
    }
  }
  try {
    const AtomicFile probe(path);
  } catch (const Error& error) {
    Fail(error.kind(), option, " ", error.what());
  }
}

void CheckNotInput(const char* option, const std::string& path, const std::string& input) {
  std::error_code ignored;
  CROSSTALK_CHECK(!std::filesystem::equivalent(input, path, ignored), option, ": ", path,
                  " is the file to read; name another");
}

void PrintResult(const std::string& text) {
  ClearProgressLine();
  bool whole = true;
  const auto put = [&](std::string_view part) {
    whole = whole && std::fwrite(part.data(), 1, part.size(), stdout) == part.size();
  };
  if (isatty(STDOUT_FILENO) == 1) {
    PutWithoutControls(text, BoldSwitches::kKept, put);
  } else {
    put(text);
  }
  if (!whole || std::fflush(stdout) != 0) {
    if (errno == EPIPE) throw ReaderIsGone();
    const bool no_room = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
    Fail(no_room ? ErrorKind::kResource : ErrorKind::kFailure,
         "standard output: cannot write the result: ", errno == EBADF ? "it is closed" : std::strerror(errno));
  }
}

void PrintResult(const Json& value) { PrintResult(value.Dump() + "\n"); }

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

std::string EstimateText(double seconds) {
  struct Unit {
    double seconds;
    const char* name;
  };
  constexpr Unit kUnits[] = {{365 * 86400.0, "years"}, {86400, "days"}, {3600, "h"}, {60, "min"}, {1, "s"}};
  Unit unit = {1e-3, "ms"};
  for (const Unit& one : kUnits) {
    if (seconds < 1.5 * one.seconds) continue;
    unit = one;
    break;
  }
  const double count = std::max(1.0, seconds / unit.seconds);
  const double rounding = std::pow(10, std::max(0.0, std::floor(std::log10(count)) - 1));
  return StrCat(CountText(std::llround(std::round(count / rounding) * rounding)), " ", unit.name);
}

std::string CountText(int64_t count) {
  const uint64_t size = count < 0 ? 0 - static_cast<uint64_t>(count) : static_cast<uint64_t>(count);
  const std::string digits = StrCat(size);
  std::string text = count < 0 ? "-" : "";
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string StepsText(int64_t steps) { return CountText(steps) + (steps == 1 ? " step" : " steps"); }

std::string FixedText(double value, int digits) {
  constexpr double kMostFixed = 1e15;  // from here on a double has no digits after the point
  char text[64];
  const bool fixed = !(std::abs(value) >= kMostFixed);
  const auto end = fixed ? std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, digits)
                         : std::to_chars(text, text + sizeof text, value, std::chars_format::scientific, 5);
  return std::string(text, end.ptr);
}

std::string BytesText(int64_t bytes) {
  const char* units[] = {"bytes", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 999.5 && unit < 4) value /= 1000, ++unit;
  return FixedText(value, unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2) + " " + units[unit];
}

std::string MarkdownTable(const TextTable& table) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (const std::string& cell : cells) text += " " + EscapeMarkdown(cell) + " |";
    return text + "\n";
  };
  std::string text = line(table.header) + "|";
  for (size_t i = 0; i < table.header.size(); ++i) text += "---|";
  text += "\n";
  for (const std::vector<std::string>& row : table.rows) text += line(row);
  return text;
}

std::string CsvLine(const std::vector<Json>& cells) {
  std::vector<std::string> texts;
  for (const Json& cell : cells) {
    std::string text = cell.is_null() ? "" : cell.is_string() ? cell.AsString() : cell.Dump();
    const bool plain = text.find_first_of(",\"\n") == std::string::npos;
    texts.push_back(plain ? std::move(text) : "\"" + Join(Split(text, '"'), "\"\"") + "\"");
  }
  return Join(texts, ",") + "\n";
}

std::string EscapeMarkdown(std::string_view text) {
  constexpr std::string_view kMarks = "\\`*[]|";
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else {
      if (kMarks.find(c) != std::string_view::npos) escaped += '\\';
      escaped += c == '\n' || c == '\r' ? ' ' : c;
    }
  }
  return escaped;
}

}  // namespace crosstalk
