// Sizes to which the planes of kernels/convolution-inl.h are padded.
#pragma once

#include <cstdint>

namespace crosstalk::kernels {

inline constexpr int kFilterLanes = 16;           // partial sums of a tap's gradient, for every width of a vector
inline constexpr int64_t kConvolvedColumns = 32;  // two vectors at least
inline constexpr int64_t kConvolvedRows = 8;
inline constexpr int kReadBeside = 16;  // elements that are read after the last that counts

}  // namespace crosstalk::kernels
