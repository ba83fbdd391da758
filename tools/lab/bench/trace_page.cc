// A traced step as text and as a page.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "tools/cli/output.h"
#include "tools/lab/bench/trace.h"
#include "tools/page/page.h"

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

namespace {

using Kind = TraceEvent::Kind;

// The step is drawn as lines of text are: so many below each other, each of equal time. Lengths are in pixels.
constexpr int kLines = 10;
constexpr double kWidth = 1000, kOpHeight = 20, kThreadHeight = 6, kGap = 3, kLeastLabel = 7;  // a label's letter
constexpr double kLeastBar = 0.15;

std::string Number(double value) { return FixedText(value, 2); }

// A line of time.
class TimeLine {
 public:
  TimeLine(const StepTrace& trace, int line)
      : trace_(trace), begin_(trace.seconds * line / kLines), end_(trace.seconds * (line + 1) / kLines) {}

  std::string Html() {
    for (const TracedOp& op : trace_.ops) AddOp(op);
    for (const TraceEvent& product : trace_.products) {
      Add(product.begin, product.end, 0, kOpHeight, product.name == std::string("attention") ? "attention" : "product",
          "");
    }
    for (const TracedOp& op : trace_.ops) AddLabel(op);
    for (const TraceEvent& tile : trace_.tiles) {
      Add(tile.begin, tile.end, kOpHeight + kGap + tile.thread * (kThreadHeight + 1), kThreadHeight, "busy", "");
    }
    double height = kOpHeight + kGap + trace_.threads * (kThreadHeight + 1);
    if (!trace_.messages.empty()) {
      for (const TraceEvent& message : trace_.messages) {
        Add(message.begin, message.end, height, kThreadHeight, "message",
            StrCat("<title>", EscapeHtml(message.name), ": ", BytesText(message.bytes), ", ",
                   Number(1e3 * message.seconds()), " ms</title>"));
      }
      height += kThreadHeight + 1;
    }
    return StrCat("<svg viewBox=\"0 0 ", Number(kWidth), " ", Number(height), "\" width=\"", Number(kWidth),
                  "\" height=\"", Number(height), "\" role=\"img\" aria-label=\"", Number(1e3 * begin_), " to ",
                  Number(1e3 * end_), " ms\">", svg_, "</svg>\n");
  }

 private:
  double X(double time) const { return kWidth * std::clamp((time - begin_) / (end_ - begin_), 0.0, 1.0); }

  void Add(double begin, double end, double y, double height, const char* style, const std::string& title) {
    const double x = X(begin), width = X(end) - x;
    if (width < kLeastBar) return;
    svg_ += StrCat("<rect class=\"", style, "\" x=\"", Number(x), "\" y=\"", Number(y), "\" width=\"", Number(width),
                   "\" height=\"", Number(height), "\">", title, "</rect>");
  }

  void AddOp(const TracedOp& op) {
    const TraceEvent& event = op.event;
    std::string title = StrCat("<title>", EscapeHtml(event.name), " ", ToString(event.shape), " ", Name(event.kind));
    if (event.layer) title += StrCat(", ", EscapeHtml(*event.layer));
    title += StrCat(": ", Number(1e3 * event.seconds()), " ms");
    if (op.multiplications > 0) {
      const double flop = 2 * static_cast<double>(op.multiplications);
      title += StrCat(", ", Number(1e-6 * flop), " MFLOP, ",
                      PercentText(flop / op.event.seconds() / (1e9 * trace_.peak_gflops)), " of the peak");
    }
    if (event.bytes > 0) title += StrCat(", ", BytesText(event.bytes));
    Add(event.begin, event.end, 0, kOpHeight, event.kind == Kind::kBackward ? "op backward" : "op", title + "</title>");
  }

  // Above the products, where the name has room.
  void AddLabel(const TracedOp& op) {
    const std::string name = op.event.name;
    const double x = X(op.event.begin), width = X(op.event.end) - x;
    if (width < kLeastLabel * static_cast<double>(name.size())) return;
    svg_ += StrCat("<text x=\"", Number(x + 3), "\" y=\"", Number(kOpHeight - 6), "\">", EscapeHtml(name), "</text>");
  }

  const StepTrace& trace_;
  double begin_, end_;
  std::string svg_;
};

std::string TimeSection(const StepTrace& trace) {
  std::string html = StrCat(
      "<p>From left to right and line by line, each of ", Number(1e3 * trace.seconds / kLines),
      " ms. Upper bars are operations, with a border on the left where one begins: <span class=\"key op\"></span> "
      "forward, <span class=\"key op backward\"></span> backward; within them <span class=\"key product\"></span> "
      "matrix "
      "products and <span class=\"key attention\"></span> the fused attention. Below are the threads, the one that "
      "computes by itself between loops first: <span class=\"key busy\"></span> its share of a loop. Point at a bar "
      "for "
      "its figures.",
      trace.messages.empty()
          ? ""
          : " Last are <span class=\"key message\"></span> gradients under way to and from other ranks.",
      "</p>\n<div class=\"scroll trace\">\n");
  for (int line = 0; line < kLines; ++line) html += TimeLine(trace, line).Html();
  return html + "</div>\n";
}

std::string OpsTable(const StepTrace& trace, GroupBy by) {
  using G = const OpGroup&;
  Columns<OpGroup> columns = {
      {"", "operation", &OpGroup::name},
      {"", "pass", [](G group) { return std::string(Name(group.kind)); }},
      {"", "result", &OpGroup::shape},
      {"", "times", [](G group) { return CountText(group.count); }},
      {"", "ms", [](G group) { return FixedText(1e3 * group.seconds, 3); }},
      {"", "% of the step", [&](G group) { return FixedText(100 * group.seconds / trace.seconds, 1); }},
      {"", "% in products", [](G group) { return FixedText(100 * group.product_seconds / group.seconds, 1); }},
      {"", "GFLOP", [](G group) { return FixedText(2e-9 * static_cast<double>(group.multiplications), 3); }},
      {"", "products, of the peak", [&](G group) { return ProductShareText(trace, group); }},
      {"", "MB", [](G group) { return FixedText(1e-6 * static_cast<double>(group.bytes), 2); }},
      {"", "threads busy, %",
       [&](G group) { return FixedText(100 * group.busy_seconds / (trace.threads * group.seconds), 1); }}};
  if (by == GroupBy::kName) columns.erase(columns.begin() + 2);
  return HtmlTable(columns, GroupOps(trace, by), "MB: of operands and results, each once");
}

}  // namespace

std::string TracePage(const StepTrace& trace, const std::string& subject) {
  double products = 0;
  for (const TracedOp& op : trace.ops) products += op.product_seconds;
  Page page(StrCat("A step of ", subject));
  page.SetKind("Crosstalk trace");
  page.SetLead(StrCat(TraceSummary(trace), " of ", trace.threads, trace.threads == 1 ? " thread." : " threads."));
  std::vector<Fact> facts = {
      {"step", StrCat(FixedText(1e3 * trace.seconds, 1), " ms"), PercentText(trace.ShareOfPeak()) + " of the peak"},
      {"in products and attention", PercentText(products / trace.seconds),
       StrCat("at ", PercentText(trace.Flop() / products / (1e9 * trace.peak_gflops)), " of the peak")},
      {"threads busy", PercentText(trace.ShareBusy()), ""},
      {"waiting within loops", PercentText(trace.ShareWaiting()), "for a loop to begin or to end"},
      {"without work", PercentText(trace.ShareAlone()), "while one thread computes by itself"},
      {"peak", StrCat(FixedText(trace.peak_gflops, 0), " GFLOP/s"), "measured in the same process"}};
  if (!trace.messages.empty()) facts.push_back({"gradients under way", MessagesText(trace), ""});
  page.AddSection("Where the time goes", FactList(facts));
  page.AddSection("Operations in time", TimeSection(trace));
  page.AddSection("Operations by name", OpsTable(trace, GroupBy::kName));
  page.AddSection("Operations by shape", OpsTable(trace, GroupBy::kNameAndShape));
  return page.Html();
}

}  // namespace crosstalk
