#include "crosstalk/autograd/scopes.h"

#include <utility>

namespace crosstalk {
namespace {

thread_local bool grad_enabled = true;
thread_local bool skipped_recording = false;

// The innermost scope's dotted name, null outside of all. (A string of each thread's own would need memory to have its
// destructor called, and the C library ends the process where there is none.)
thread_local const std::string* layer = nullptr;

std::string Below(const std::string& outer, const std::string& name) {
  return outer.empty() ? name : outer + '.' + name;
}

}  // namespace

NoGradScope::NoGradScope() : before_(std::exchange(grad_enabled, false)) {}
NoGradScope::~NoGradScope() { grad_enabled = before_; }
bool GradEnabled() { return grad_enabled; }

LayerScope::LayerScope(const std::string& name)
    : name_(Below(CurrentLayer(), name)), before_(std::exchange(layer, &name_)) {}
LayerScope::~LayerScope() { layer = before_; }

const std::string& CurrentLayer() {
  static const std::string none;
  return layer == nullptr ? none : *layer;
}

namespace internal {

RecordingScope::RecordingScope() : before_(std::exchange(grad_enabled, true)) {}
RecordingScope::~RecordingScope() { grad_enabled = before_; }

AbsoluteLayerScope::AbsoluteLayerScope(std::string name)
    : name_(std::move(name)), before_(std::exchange(layer, &name_)) {}
AbsoluteLayerScope::~AbsoluteLayerScope() { layer = before_; }

bool& SkippedRecording() { return skipped_recording; }

}  // namespace internal
}  // namespace crosstalk
