// A shape around one dimension: what kernels take that reduce or look up along it.
#pragma once

#include <cstdint>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/shape.h"

namespace crosstalk {

// x[outer, size, inner]: the dimensions before number `axis`, itself, those after it.
struct AxisSplit {
  int axis = 0;
  int64_t outer = 1, size = 1, inner = 1;
};

// `dim` may count from the end; a usage error that names `op` where there is no such dimension.
inline AxisSplit SplitAt(const char* op, const Shape& shape, int dim) {
  AxisSplit split;
  split.axis = dim < 0 ? dim + shape.rank() : dim;
  CROSSTALK_CHECK(split.axis >= 0 && split.axis < shape.rank(), op, ": dimension ", dim, " of a tensor of shape ",
                  shape);
  for (int i = 0; i < shape.rank(); ++i) {
    (i < split.axis ? split.outer : i == split.axis ? split.size : split.inner) *= shape[i];
  }
  return split;
}

}  // namespace crosstalk
