#include "crosstalk/models/training/run_folder.h"

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/file_calls.h"

namespace crosstalk {

namespace {

constexpr char kLockName[] = "lock";

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace

bool RunFolder::HoldsRun() const { return Exists(RunFile()); }

bool RunFolder::IsForeign() const {
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
  const JsonReader reader(run, RunFile());
  if (reader.Int("format") != kRunFormat) {
    reader.FailAt("format", "is ", reader.Int("format"), ", not ", kRunFormat, ": written by another version");
  }
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
  descriptor_ = OpenFile(path, O_RDWR | O_CREAT, 0644);
  if (descriptor_ < 0) {
    Fail(errno == ENOSPC ? ErrorKind::kResource : ErrorKind::kFailure, path, ": ", std::strerror(errno));
  }
  if (RetryInterrupted([&] { return flock(descriptor_, LOCK_EX | LOCK_NB); }) != 0) {
    const int error = errno;
    close(descriptor_);
    CROSSTALK_CHECK(error != EWOULDBLOCK, folder,
                    ": another process is training there; wait for it, or choose another folder");
    Fail(ErrorKind::kFailure, path, ": ", std::strerror(error));
  }
}

RunLock::~RunLock() { close(descriptor_); }

}  // namespace crosstalk
