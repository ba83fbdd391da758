// A curve of any number of points as one of a few hundred.
#pragma once

#include <string>
#include <vector>

namespace crosstalk {

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

}  // namespace crosstalk
