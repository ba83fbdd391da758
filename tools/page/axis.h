// Numbers on an axis; curves, thinned to what a picture shows; and curves as one line of characters.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace crosstalk {

// The axes of charts: where the ticks stand and what is written beside them, and numbers as a chart shows them.

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

// A curve of any number of points as one of a few hundred.

// NaN and infinities in y are gaps. `low` and `high`, where they are given: the range of what y is the mean of, such as
// runs of several seeds.
struct Series {
  std::string name;
  std::vector<double> x, y;
  std::vector<double> low = {}, high = {};
};

// y with the range of `values`, which are not none.
void AddMeanAndRange(double x, const std::vector<double>& values, Series* series);
// The mean and the range of several runs, where all of them have a finite value.
Series MeanAndRange(const std::string& name, const std::vector<Series>& runs);

// One point that is drawn: of several that fall together their mean, between the least and the largest.
struct CurvePoint {
  double x = 0;  // the last one's
  double y = 0, low = 0, high = 0;
  bool begins = false;  // after a gap
};

struct Curve {
  std::vector<CurvePoint> points;  // by x
  bool has_band = false;           // some are means of several values
};

// As the series is if it has at most 2·most points, else in at most `most` columns of equal width.
Curve Thinned(const Series& series, size_t most);

// A curve in one line of a terminal.

enum class SparklineStyle { kBlocks, kAscii };

// "▇▅▃▂▁": at most `width` characters, each the mean of its part of the x axis, from the least to the largest. A part
// without a value is between its neighbours, and a space after one that is not finite. Empty of a series without any.
std::string Sparkline(const Series& series, size_t width, SparklineStyle style);

// Blocks where the locale's characters are UTF-8 (LC_ALL, LC_CTYPE, LANG).
SparklineStyle SparklineStyleOfLocale();

}  // namespace crosstalk
