// The axes of charts: where the ticks stand and what is written beside them, and numbers as a chart shows them.
#pragma once

#include <string>
#include <vector>

namespace crosstalk {

// Five significant digits, none that are zeros at the end: "4.193", "18422", "1.826e-05". NaN is "undefined".
std::string ShortNumber(double value);

enum class AxisScale {
  kLinear,
  kWhole,      // of whole numbers, such as steps: no ticks between them
  kLog,        // of positive values; others are not drawn
  kDoubling,   // of positive values, a tick at each power of two
  kLogIfWide,  // where all values are positive and the largest is more than 100 times the least
};

struct Tick {
  double place;  // 0 at the low end, 1 at the high one
  std::string label;
};

// What an axis shows: from low to high, with round values as ticks, at least two where they differ.
class Axis {
 public:
  // Values of an axis that has room for about `ticks`. Of values that are all the same, or so close that a double has
  // no ticks between them, a little to both sides.
  Axis(double low, double high, AxisScale scale, int ticks);

  double low() const { return low_; }
  double high() const { return high_; }
  bool is_log() const { return log_; }
  const std::vector<Tick>& ticks() const { return ticks_; }
  // 0 at low, 1 at high; what lies outside is beyond that.
  double Place(double value) const;

 private:
  double low_, high_;
  bool log_;
  std::vector<Tick> ticks_;
};

}  // namespace crosstalk
