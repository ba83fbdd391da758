#include "crosstalk/models/training/metrics_log.h"

#include <unistd.h>

#include <string_view>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/file_calls.h"

namespace crosstalk {

namespace {

// Calls visit(line, "PATH: line N") for each line with an end. A last one that was cut off is left out.
template <typename Visitor>
void VisitLines(const std::string& text, const std::string& path, const Visitor& visit) {
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) return;
    visit(std::string_view(text).substr(begin, end - begin), StrCat(path, ": line ", ++number));
    begin = end + 1;
  }
}

// Whether a line was written before the run stood at `step`.
bool Precedes(std::string_view line, const std::string& source, int64_t step, MetricsLog::Evaluated evaluated) {
  const Json object = ParseJson(line, source);
  const JsonReader reader(object, source);
  const int64_t line_step = reader.Int("step");
  const std::string& event = reader.String("event");
  if (line_step != step) return line_step < step;
  return event != "eval" || evaluated == MetricsLog::Evaluated::kYes;
}

// PREFIX-1, or -2, …: the first that does not exist.
std::string UnusedPath(const std::string& prefix) {
  int number = 1;
  while (KindOf(StrCat(prefix, "-", number)) != PathKind::kNothing) ++number;
  return StrCat(prefix, "-", number);
}

}  // namespace

MetricsLog::MetricsLog(const std::string& path, int64_t step, Evaluated evaluated) : path_(path) {
  if (KindOf(path) != PathKind::kNothing) {
    const std::string text = ReadFile(path);
    std::string kept;
    VisitLines(text, path, [&](std::string_view line, const std::string& source) {
      try {
        if (Precedes(line, source, step, evaluated)) kept.append(line).push_back('\n');
      } catch (const Error& error) {
        if (damage_.empty()) damage_ = error.what();
      }
    });
    if (!damage_.empty()) {
      const std::string aside = UnusedPath(path + ".damaged");
      WriteFileAtomically(aside, text);
      damage_ += StrCat("; the file is kept as ", aside, ", and goes on without its damaged lines");
    }
    if (kept != text) WriteFileAtomically(path, kept);
  }
  descriptor_ = OpenFile(path, O_WRONLY | O_CREAT | O_APPEND);
  if (descriptor_ < 0) FailWriting("open", path, errno);
}

MetricsLog::~MetricsLog() { close(descriptor_); }

void MetricsLog::Append(const Json& line) {
  const std::string text = line.Dump() + "\n";
  if (!WriteAll(descriptor_, text.data(), text.size())) FailWriting("write a line", path_, errno);
}

std::vector<Json> ReadMetrics(const std::string& path) {
  std::vector<Json> lines;
  VisitLines(ReadFile(path), path,
             [&](std::string_view line, const std::string& source) { lines.push_back(ParseJson(line, source)); });
  return lines;
}

}  // namespace crosstalk
