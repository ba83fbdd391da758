#include "tools/cli/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

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

std::string ShellQuoted(const std::string& word) { return "'" + Join(Split(word, '\''), "'\\''") + "'"; }

}  // namespace crosstalk
