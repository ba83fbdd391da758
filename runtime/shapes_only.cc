#include "crosstalk/runtime/shapes_only.h"

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"

namespace crosstalk {

void CountMultiplications(int64_t count) {
  if (int64_t* const sum = CurrentContext().multiplications) *sum = SaturatingSum(*sum, count);
}

int64_t CheckedMultiplications(int64_t count) {
  CROSSTALK_CHECK(count != kTooMany, "the sizes are too large: their multiplications do not fit in 63 bits");
  return count;
}

}  // namespace crosstalk
