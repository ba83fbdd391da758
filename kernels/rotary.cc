#include <numbers>

#include "crosstalk/kernels/heads.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"

namespace crosstalk::kernels {

namespace {

// What is left of a frequency f.
double Scaled(double f, const RotaryFrequencies& by) {
  if (by.factor == 1) return f;
  if (by.original_context == 0) return f / by.factor;
  const double waves = static_cast<double>(by.original_context) * f / (2 * std::numbers::pi);  // in that context
  if (waves < by.low) return f / by.factor;
  if (waves > by.high) return f;
  const double s = (waves - by.low) / (by.high - by.low);
  return (1 - s) * f / by.factor + s * f;
}

}  // namespace

template <typename T>
void RotaryTable(int64_t n, int64_t d, int64_t first, const RotaryFrequencies& frequencies, T* cos, T* sin) {
  const int64_t pairs = d / 2;
  for (int64_t i = 0; i < pairs; ++i) {
    const double f = Pow(frequencies.base, -2.0 * static_cast<double>(i) / static_cast<double>(d));
    const double turns = Scaled(f, frequencies) / std::numbers::pi;
    for (int64_t p = 0; p < n; ++p) {
      const double angle = static_cast<double>(first + p) * turns;  // in units of π
      cos[p * pairs + i] = static_cast<T>(CosPi(angle));
      sin[p * pairs + i] = static_cast<T>(CosPi(angle - 0.5));
    }
  }
}

template <typename T>
void Rotate(const RotaryShape& shape, const T* cos, const T* sin, int direction, const T* x, T* y) {
  const int64_t pairs = shape.d / 2;
  const int64_t step = shape.pairs == RotaryPairs::kHalves ? 1 : 2;       // from one pair's first to the next one's
  const int64_t apart = shape.pairs == RotaryPairs::kHalves ? pairs : 1;  // a pair's two elements
  const T sign = direction < 0 ? T(-1) : T(1);
  ParallelForRange(shape.b * shape.n, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const c = cos + row % shape.n * pairs;
      const T* const s = sin + row % shape.n * pairs;
      for (int64_t head = 0; head < shape.heads; ++head) {
        const int64_t at = (row * shape.heads + head) * shape.d;
        for (int64_t i = 0; i < pairs; ++i) {
          const T x_1 = x[at + i * step], x_2 = x[at + i * step + apart], turn = sign * s[i];
          y[at + i * step] = x_1 * c[i] - x_2 * turn;
          y[at + i * step + apart] = x_2 * c[i] + x_1 * turn;
        }
      }
    }
  });
}

template void RotaryTable(int64_t, int64_t, int64_t, const RotaryFrequencies&, float*, float*);
template void RotaryTable(int64_t, int64_t, int64_t, const RotaryFrequencies&, double*, double*);
template void Rotate(const RotaryShape&, const float*, const float*, int, const float*, float*);
template void Rotate(const RotaryShape&, const double*, const double*, int, const double*, double*);

}  // namespace crosstalk::kernels
