#include "crosstalk/models/training/metrics_log.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"

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
  if (line_step != step) return line_step < step;
  return reader.String("event") != "eval" || evaluated == MetricsLog::Evaluated::kYes;
}

}  // namespace

MetricsLog::MetricsLog(const std::string& path, int64_t step, Evaluated evaluated) : path_(path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    const std::string text = ReadFile(path);
    std::string kept;
    VisitLines(text, path, [&](std::string_view line, const std::string& source) {
      if (Precedes(line, source, step, evaluated)) kept.append(line).push_back('\n');
    });
    if (kept != text) WriteFileAtomically(path, kept);
  }
  file_ = std::fopen(path.c_str(), "ae");
  if (file_ == nullptr) {
    Fail(errno == ENOSPC ? ErrorKind::kResource : ErrorKind::kFailure, path, ": ", std::strerror(errno));
  }
}

MetricsLog::~MetricsLog() { std::fclose(file_); }

void MetricsLog::Append(const Json& line) {
  const std::string text = line.Dump() + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() || std::fflush(file_) != 0) {
    const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
    Fail(full ? ErrorKind::kResource : ErrorKind::kFailure, path_, ": cannot write a line: ", std::strerror(errno),
         full ? "; make room, then resume the run" : "");
  }
}

std::vector<Json> ReadMetrics(const std::string& path) {
  std::vector<Json> lines;
  VisitLines(ReadFile(path), path,
             [&](std::string_view line, const std::string& source) { lines.push_back(ParseJson(line, source)); });
  return lines;
}

}  // namespace crosstalk
