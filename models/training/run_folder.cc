#include "crosstalk/models/training/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {

namespace {

constexpr char kLockName[] = "lock";

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
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

bool RunFolder::HoldsRun() const { return Exists(RunFile()); }

bool RunFolder::HoldsOtherFiles() const {
  if (!Exists(path_) || HoldsRun()) return false;
  for (const std::string& name : ListDirectory(path_)) {
    if (name != kLockName && !IsTemporaryName(name)) return true;
  }
  return false;
}

Json RunFolder::ReadRunFile() const {
  if (!HoldsRun()) Fail(ErrorKind::kData, path_, ": there is no run here (no run.json)");
  Json run = ReadJsonFile(RunFile());
  if (!run.is_object()) Fail(ErrorKind::kData, RunFile(), ": not a JSON object");
  return run;
}

std::optional<std::string> RunFolder::TokenizerFile() const {
  for (const char* name : {"tokenizer.model", "tokenizer.json"}) {
    const std::string path = path_ + "/" + name;
    if (Exists(path)) return path;
  }
  return std::nullopt;
}

std::string UnusedRunPath(const std::string& parent, const std::string& name) {
  for (int number = 1;; ++number) {
    const std::string path = StrCat(parent, "/", name, "-", number);
    if (!Exists(path)) return path;
  }
}

RunLock::RunLock(const std::string& folder) {
  CreateDirectories(folder);
  const std::string path = folder + "/" + kLockName;
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    Fail(errno == ENOSPC ? ErrorKind::kResource : ErrorKind::kFailure, path, ": ", std::strerror(errno));
  }
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    close(descriptor_);
    CROSSTALK_CHECK(error != EWOULDBLOCK, folder,
                    ": another process is training there; wait for it, or choose another folder");
    Fail(ErrorKind::kFailure, path, ": ", std::strerror(error));
  }
}

RunLock::~RunLock() { close(descriptor_); }

MetricsLog::MetricsLog(const std::string& path, int64_t step, Evaluated evaluated) : path_(path) {
  if (Exists(path)) {
    const std::string text = ReadFile(path);
    std::string kept;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      if (end == std::string::npos) break;  // the last line was cut off
      const std::string_view line(text.data() + begin, end - begin);
      if (Precedes(line, path, step, evaluated)) kept.append(line).push_back('\n');
      begin = end + 1;
    }
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

}  // namespace crosstalk
