// The progress line of long commands: one line that is rewritten on a terminal, now and then a plain line off it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace crosstalk {

// True if standard error is a terminal that understands control sequences.
bool ErrorIsTerminal();

// Bold or red on such a terminal, unless NO_COLOR is set to something; the plain text otherwise.
std::string Bold(const std::string& text);
std::string Red(const std::string& text);

// Takes the progress line off the terminal, so that something else can be written there.
void ClearProgressLine();

// Shows the newest of many lines. On a terminal each replaces the last, at most ten times a second; off it a line is
// written when the last one is `plain_interval` old. Last() always shows.
class Progress {
 public:
  explicit Progress(std::chrono::milliseconds plain_interval = std::chrono::seconds(10))
      : plain_interval_(plain_interval) {}
  ~Progress() { ClearProgressLine(); }

  void Update(const std::string& line);
  // A line that stays.
  void Last(const std::string& line);

 private:
  std::chrono::milliseconds plain_interval_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now() - std::chrono::hours(1);
};

// "43 s", "2 min 05 s", "3 h 12 min".
std::string DurationText(double seconds);
// "1,234,567".
std::string CountText(int64_t count);
// 3.14159 with 2 digits is "3.14".
std::string FixedText(double value, int digits);
// "1.5 GB", powers of 1000.
std::string BytesText(int64_t bytes);

}  // namespace crosstalk
