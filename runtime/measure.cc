#include "crosstalk/runtime/measure.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/file_calls.h"

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

namespace {

// "intel-rapl:0" is a processor; "intel-rapl:0:1" is a part of it, counted there already.
bool IsProcessor(std::string_view name) {
  constexpr std::string_view kPrefix = "intel-rapl:";
  return name.starts_with(kPrefix) && name.substr(kPrefix.size()).find(':') == std::string_view::npos;
}

// The number that a file of the system holds; none where it cannot be read, or is not a number.
std::optional<int64_t> NumberIn(const std::string& file) {
  char text[64];  // the size that such a file says is not its own
  const int descriptor = OpenFile(file, O_RDONLY);
  if (descriptor < 0) return std::nullopt;
  const ssize_t size = RetryInterrupted([&] { return read(descriptor, text, sizeof text); });
  close(descriptor);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text, text + std::max<ssize_t>(0, size), number);
  return error == std::errc() && number >= 0 ? std::optional<int64_t>(number) : std::nullopt;
}

}  // namespace

EnergyMeter::EnergyMeter(const std::string& folder) {
  std::vector<std::string> names;
  NamesIn(folder, 0, &names);
  for (const std::string& name : names) {
    if (!IsProcessor(name)) continue;
    Counter counter = {.file = StrCat(folder, "/", name, "/energy_uj")};
    const std::optional<int64_t> now = NumberIn(counter.file);
    const std::optional<int64_t> range = NumberIn(StrCat(folder, "/", name, "/max_energy_range_uj"));
    if (!now || !range) {  // the sum would be that of some processors
      counters_.clear();
      return;
    }
    counter.last = *now;
    counter.range = *range;
    counters_.push_back(std::move(counter));
  }
}

std::optional<double> EnergyMeter::Joules() {
  if (counters_.empty()) return std::nullopt;
  int64_t microjoules = 0;
  for (Counter& counter : counters_) {
    const std::optional<int64_t> now = NumberIn(counter.file);
    if (!now) {
      counters_.clear();
      return std::nullopt;
    }
    microjoules += *now - counter.last + (*now < counter.last ? counter.range : 0);
    counter.last = *now;
  }
  return static_cast<double>(microjoules) * 1e-6;
}

}  // namespace crosstalk
