#include "crosstalk/autograd/precision.h"

#include <utility>

namespace crosstalk {
namespace {

thread_local Precision current = Precision::kFloat32;

}  // namespace

PrecisionScope::PrecisionScope(Precision precision) : before_(std::exchange(current, precision)) {}
PrecisionScope::~PrecisionScope() { current = before_; }
Precision CurrentPrecision() { return current; }

}  // namespace crosstalk
