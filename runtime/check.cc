#include "crosstalk/runtime/check.h"

#ifdef __FAST_MATH__
#error "Crosstalk tests for NaN and promises exact bits: build it without -ffast-math or -Ofast."
#endif

namespace crosstalk::internal {

void DebugCheckFailed(const char* condition, const char* file, int line) {
  throw std::logic_error(StrCat("internal check failed: ", condition, " at ", file, ":", line));
}

}  // namespace crosstalk::internal
