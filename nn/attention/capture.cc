#include "crosstalk/nn/attention/capture.h"

#include <utility>

namespace crosstalk {
namespace {

thread_local const AttentionCaptureScope* current = nullptr;

}  // namespace

AttentionCaptureScope::AttentionCaptureScope(std::function<void(const AttentionCapture&)> take)
    : take_(std::move(take)), before_(std::exchange(current, this)) {}
AttentionCaptureScope::~AttentionCaptureScope() { current = before_; }

const AttentionCaptureScope* AttentionCaptureScope::Current() { return current; }

}  // namespace crosstalk
