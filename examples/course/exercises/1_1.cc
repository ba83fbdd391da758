// Exercise 1.1 (1 point): strides.
//
// A tensor is one long array. Of T[i, j, k] with the sizes {2, 3, 5} element (i, j, k) stands at i·15 + j·5 + k: the
// strides are {15, 5, 1}. The last dimension is contiguous.
#include "examples/course/checker/exercise.h"

using namespace course;

// the sizes of the dimensions → how many elements apart two neighbours along each of them are
static std::vector<int64_t> Strides(const std::vector<int64_t>& sizes) { throw Unsolved("1.1"); }

EXERCISE(1_1, Strides);
