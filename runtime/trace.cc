#include "crosstalk/runtime/trace.h"

#include <algorithm>
#include <utility>

namespace crosstalk {

void Trace::Add(TraceEvent event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  events_.push_back(std::move(event));
}

void Trace::Mark(TraceEvent event) {
  event.begin = std::exchange(marked_, seconds());
  event.end = marked_;
  event.layer = CurrentContext().layer;
  Add(std::move(event));
}

std::vector<TraceEvent> Trace::Events() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<TraceEvent> events = events_;
  std::stable_sort(events.begin(), events.end(),
                   [](const TraceEvent& a, const TraceEvent& b) { return a.end < b.end; });
  return events;
}

}  // namespace crosstalk
