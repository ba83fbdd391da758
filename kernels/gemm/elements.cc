// Products of elements as they are, in float and in double.
#include "crosstalk/kernels/gemm/blocked.h"

#define HWY_TARGET_INCLUDE "crosstalk/kernels/gemm/elements.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/gemm/elements-inl.h"
#include "crosstalk/kernels/gemm/product-inl.h"

CROSSTALK_TARGETS(ProductOfFloats, kProductOf<Elements<float>>)
CROSSTALK_TARGETS(ProductOfDoubles, kProductOf<Elements<double>>)
