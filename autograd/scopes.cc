#include "crosstalk/autograd/scopes.h"

#include <utility>

namespace crosstalk {
namespace {

thread_local bool grad_enabled = true;
thread_local bool skipped_recording = false;

// The dotted name; the function-local object outlives every scope of its thread.
std::string& Layer() {
  thread_local std::string layer;
  return layer;
}

}  // namespace

NoGradScope::NoGradScope() : before_(std::exchange(grad_enabled, false)) {}
NoGradScope::~NoGradScope() { grad_enabled = before_; }
bool GradEnabled() { return grad_enabled; }

LayerScope::LayerScope(const std::string& name) : length_before_(Layer().size()) {
  if (!Layer().empty()) Layer() += '.';
  Layer() += name;
}
LayerScope::~LayerScope() { Layer().resize(length_before_); }
const std::string& CurrentLayer() { return Layer(); }

namespace internal {

RecordingScope::RecordingScope() : before_(std::exchange(grad_enabled, true)) {}
RecordingScope::~RecordingScope() { grad_enabled = before_; }

AbsoluteLayerScope::AbsoluteLayerScope(std::string layer) : before_(std::exchange(Layer(), std::move(layer))) {}
AbsoluteLayerScope::~AbsoluteLayerScope() { Layer() = std::move(before_); }

bool& SkippedRecording() { return skipped_recording; }

}  // namespace internal
}  // namespace crosstalk
