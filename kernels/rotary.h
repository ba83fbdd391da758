// Rotary positions (Su et al. 2021): pairs of a vector's elements, turned by an angle that grows with the position.
#pragma once

#include <cstdint>

#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {
namespace kernels {

// Which elements of a vector of d make pair i < d / 2.
enum class RotaryPairs {
  kHalves,       // i and i + d / 2 (GPT-NeoX, Llama as Hugging Face has it)
  kInterleaved,  // 2i and 2i + 1 (RoFormer, Llama as Meta has it)
};

struct RotaryShape {
  int64_t b = 0, n = 0, heads = 0, d = 0;
  RotaryPairs pairs = RotaryPairs::kHalves;
};

// cos and sin[n, d / 2] of the angles p · base^(-2i / d) of the positions p = first … first + n - 1.
template <typename T>
void RotaryTable(int64_t n, int64_t d, int64_t first, double base, T* cos, T* sin);

// y[b, n, heads, d] of x by position: (y_1, y_2) = (x_1·cos - x_2·sin, x_2·cos + x_1·sin) for each pair. direction -1
// turns back, which is the gradient.
template <typename T>
void Rotate(const RotaryShape& shape, const T* cos, const T* sin, int direction, const T* x, T* y);

}  // namespace kernels
}  // namespace crosstalk
