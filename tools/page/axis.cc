#include "tools/page/axis.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tools/cli/format.h"

namespace crosstalk {
namespace {

// The least of 1, 2, 5 times a power of ten that is not below `step`.
double RoundStep(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// So many digits, with an exponent where the number has more before its point, or many zeros after it.
std::string GeneralText(double value, int digits) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value, std::chars_format::general, digits).ptr);
}

std::string TickLabel(double value, int digits) {
  const double size = std::abs(value);
  if (size != 0 && (size < 1e-4 || size >= 1e9)) {
    return GeneralText(value, 3);
  }
  if (digits == 0) return CountText(std::llround(value));
  return FixedText(value == 0 ? 0 : value, digits);
}

}  // namespace

std::string ShortNumber(double value) {
  if (std::isnan(value)) return "undefined";
  if (std::isinf(value)) return value > 0 ? "infinite" : "-infinite";
  const double size = std::abs(value);
  return size >= 99999.5 && size < 1e15 ? FixedText(value, 0) : GeneralText(value, 5);
}

Axis::Axis(double low, double high, AxisScale scale, int ticks) : low_(low), high_(high) {
  const bool doubling = scale == AxisScale::kDoubling;
  log_ = low > 0 && (doubling || scale == AxisScale::kLog || (scale == AxisScale::kLogIfWide && high / low > 100));
  const double size = std::max(std::abs(low_), std::abs(high_));
  if (!(high_ - low_ > 1e-9 * size)) {
    const double margin = scale == AxisScale::kWhole ? std::max(1.0, 1e-9 * size) : low_ == 0 ? 1 : 0.05 * size;
    low_ -= margin;
    high_ += margin;
  }
  if (log_ && doubling) {
    // From one power of two to another, so that there are two ticks at least.
    const double first = std::floor(std::log2(low_) + 1e-9),
                 last = std::max(first + 1, std::ceil(std::log2(high_) - 1e-9));
    low_ = std::exp2(first);
    high_ = std::exp2(last);
    const double every = std::max(1.0, std::ceil((last - first) / (2 * std::max(1, ticks))));
    for (double power = first; power <= last; power += every) {
      const double value = std::exp2(power);
      ticks_.push_back({Place(value), TickLabel(value, static_cast<int>(std::max(0.0, -power)))});
    }
    return;
  }
  if (log_) {
    const int first = static_cast<int>(std::ceil(std::log10(low_) - 1e-9));
    const int last = static_cast<int>(std::floor(std::log10(high_) + 1e-9));
    const int every = std::max(1, (last - first + ticks) / ticks);
    for (int power = first; power <= last; power += every) {
      const double value = std::pow(10, power);
      ticks_.push_back({Place(value), TickLabel(value, std::max(0, -power))});
    }
    if (ticks_.size() >= 2) return;
    ticks_.clear();
    for (int power = first - 1; power <= last + 1; ++power) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double value = factor * std::pow(10, power);
        if (value < low_ || value > high_) continue;
        ticks_.push_back({Place(value), TickLabel(value, std::max(0, -power))});
      }
    }
    if (ticks_.size() >= 2) return;
    ticks_.clear();  // the range is so narrow that even steps are as good
  }
  double step = RoundStep((high_ - low_) / std::max(1, ticks));
  if (scale == AxisScale::kWhole) step = std::max(1.0, step);
  const int digits = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  // Counted in steps, so that rounding does not add up.
  for (double count = std::ceil(low_ / step - 1e-9); count * step <= high_ + 1e-9 * step; ++count) {
    ticks_.push_back({Place(count * step), TickLabel(count * step, std::min(digits, 12))});
  }
}

double Axis::Place(double value) const {
  if (log_) return value > 0 ? std::log(value / low_) / std::log(high_ / low_) : -1;
  return (value - low_) / (high_ - low_);
}

}  // namespace crosstalk
