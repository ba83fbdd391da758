#include "crosstalk/runtime/shapes_only.h"

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
  for (ShapesOnlyScope* scope = innermost; scope != nullptr; scope = scope->outer_) scope->multiplications_ += count;
}

UncountedScope::UncountedScope() : before_(std::exchange(uncounted, true)) {}
UncountedScope::~UncountedScope() { uncounted = before_; }

}  // namespace crosstalk
