// A solution of exercise 1.1: strides.
#include "examples/course/checker/exercise.h"

using namespace course;

// the sizes of the dimensions → how many elements apart two neighbours along each of them are
static std::vector<int64_t> Strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= sizes[i];
  }
  return strides;
}

EXERCISE(1_1, Strides);
