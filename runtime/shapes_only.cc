#include "crosstalk/runtime/shapes_only.h"

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"

namespace crosstalk {
namespace {

thread_local ShapesOnlyScope* innermost = nullptr;
thread_local bool uncounted = false;

}  // namespace

ShapesOnlyScope::ShapesOnlyScope() : outer_(std::exchange(innermost, this)) {}
ShapesOnlyScope::~ShapesOnlyScope() { innermost = outer_; }

bool ShapesOnly() { return innermost != nullptr; }

void CountMultiplications(int64_t count) {
  if (uncounted) return;
  for (ShapesOnlyScope* scope = innermost; scope != nullptr; scope = scope->outer_) {
    scope->multiplications_ = SaturatingSum(scope->multiplications_, count);
  }
}

int64_t CheckedMultiplications(int64_t count) {
  CROSSTALK_CHECK(count != kTooMany, "the sizes are too large: their multiplications do not fit in 63 bits");
  return count;
}

UncountedScope::UncountedScope() : before_(std::exchange(uncounted, true)) {}
UncountedScope::~UncountedScope() { uncounted = before_; }

}  // namespace crosstalk
