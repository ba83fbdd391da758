// A matrix as a small picture, for viewers that take PNG files.
#pragma once

#include <cstdint>
#include <string>

#include "crosstalk/runtime/tensor.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

struct HeatImage {
  int64_t width = 0, height = 0;  // pixels
  std::string png;
};

// values[rows, columns]: orange below 0, white at 0, blue above, each as strong as a share of the largest |value|; grey
// where there is no number. A matrix of more than 256 rows or columns is shown by the means of blocks, a small one with
// several pixels a value.
HeatImage DrawHeatImage(const Tensor& values);

// means[⌈rows / block⌉, ⌈columns / block⌉] of blocks of block · block values (fewer at the ends), float64.
Tensor BlockMeans(const Tensor& values, int64_t block);

}  // namespace crosstalk
