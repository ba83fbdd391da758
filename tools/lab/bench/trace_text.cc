#include "tools/lab/bench/trace_text.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "tools/cli/format.h"

namespace crosstalk {

namespace {

constexpr size_t kMostRows = 25;

std::string Row(const char* format, auto... cells) {
  char line[200];
  std::snprintf(line, sizeof(line), format, cells...);
  return line;
}

}  // namespace

std::string PercentText(double share) { return StrCat(FixedText(100 * share, 1), " %"); }

std::string TraceSummary(const StepTrace& trace) {
  return StrCat(FixedText(1e3 * trace.seconds, 1), " ms, ", FixedText(1e-9 * trace.Flop(), 2), " GFLOP, ",
                PercentText(trace.ShareOfPeak()), " of the peak");
}

std::string ProductShareText(const StepTrace& trace, const OpGroup& group) {
  if (group.multiplications == 0) return "";
  const double flop = 2 * static_cast<double>(group.multiplications);
  return PercentText(flop / group.product_seconds / (1e9 * trace.peak_gflops));
}

std::string MessagesText(const StepTrace& trace) {
  int64_t bytes = 0;
  for (const TraceEvent& message : trace.messages) bytes += message.bytes;
  return StrCat(FixedText(1e3 * trace.MessageSeconds(), 1), " ms, ", BytesText(bytes), ", ",
                PercentText(trace.HiddenSeconds() / trace.MessageSeconds()), " of the time overlapped with backward");
}

std::string TraceText(const StepTrace& trace) {
  double products = 0, allocation = 0;
  for (const TracedOp& op : trace.ops) {
    products += op.product_seconds;
    allocation += op.allocation_seconds;
  }
  std::string text = StrCat(
      TraceSummary(trace), " of ", trace.threads, trace.threads == 1 ? " thread" : " threads", " (",
      FixedText(trace.peak_gflops, 0), " GFLOP/s)\n", "products and attention ", PercentText(products / trace.seconds),
      " of the time, ", PercentText(trace.Flop() / products / (1e9 * trace.peak_gflops)), " of the peak in it\n",
      "allocation ", PercentText(allocation / trace.seconds), ", ", trace.allocations, " times\n", "threads busy ",
      PercentText(trace.ShareBusy()), ", waiting within loops ", PercentText(trace.ShareWaiting()),
      ", without work while one computes ", PercentText(trace.ShareAlone()), "\n");
  if (!trace.messages.empty()) text += StrCat("gradients to and from other ranks ", MessagesText(trace), "\n");
  text += "\n";
  text += Row("%-20s %-9s %-20s %5s %9s %6s %9s %9s %7s\n", "operation", "", "result", "times", "ms", "%", "products %",
              "of peak %", "busy %");
  const std::vector<OpGroup> groups = GroupOps(trace, GroupBy::kNameAndShape);
  for (size_t i = 0; i < std::min(groups.size(), kMostRows); ++i) {
    const OpGroup& group = groups[i];
    const std::string of_peak = ProductShareText(trace, group);
    text +=
        Row("%-20s %-9s %-20s %5lld %9.3f %6.1f %10.1f %9s %7.1f\n", group.name.c_str(), Name(group.kind),
            group.shape.c_str(), static_cast<long long>(group.count), 1e3 * group.seconds,
            100 * group.seconds / trace.seconds, 100 * group.product_seconds / group.seconds,
            of_peak.substr(0, of_peak.find(' ')).c_str(), 100 * group.busy_seconds / (trace.threads * group.seconds));
  }
  if (groups.size() > kMostRows) {
    double rest = 0;
    for (size_t i = kMostRows; i < groups.size(); ++i) rest += groups[i].seconds;
    text += Row("%-20s %-9s %-20s %5lld %9.3f %6.1f\n", "others", "", "",
                static_cast<long long>(groups.size() - kMostRows), 1e3 * rest, 100 * rest / trace.seconds);
  }
  return text;
}

}  // namespace crosstalk
