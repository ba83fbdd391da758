#include "crosstalk/models/training/run_folder.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/file_calls.h"
#include "crosstalk/runtime/text.h"

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

FieldTable<RunSession> RunSession::Fields() {
  using S = RunSession;
  const FieldOptions later = {.may_be_missing = true};
  return {{"from_step", &S::from_step},
          {"version", &S::version, later},
          {"threads", &S::threads, later},
          {"simd_target", &S::simd_target},
          {"platform", &S::platform, later},
          {"bfloat16_unit", &S::bfloat16_unit, {.only_if_set = true}},
          {"ranks", &S::ranks, {.only_if_set = true}}};
}

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

namespace {

constexpr char kLockName[] = "lock";
constexpr char kCheckpointsName[] = "checkpoints";
constexpr int kLockAttempts = 100;

constexpr char kProcess[] = ", process ";

// "HOST, process 1234" of a lock's file; empty where it holds anything else.
std::string ReadHolder(int descriptor) {
  char bytes[512];
  const ssize_t size = RetryInterrupted([&] { return pread(descriptor, bytes, sizeof bytes, 0); });
  if (size <= 0 || size == sizeof bytes) return "";
  const std::string text(bytes, static_cast<size_t>(size));
  const bool is_line = text.find('\n') == text.size() - 1;
  return is_line && text.find(kProcess) != std::string::npos ? text.substr(0, text.size() - 1) : "";
}

// 0, or why not. HolderOf holds a lock for a moment: one that is gone soon was such a look.
int LockDescriptor(int descriptor) {
  constexpr int kLooks = 40;
  for (int look = 0;; ++look) {
    if (RetryInterrupted([&] { return flock(descriptor, LOCK_EX | LOCK_NB); }) == 0) return 0;
    if (errno != EWOULDBLOCK || look == kLooks) return errno;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

bool RunFolder::HasRunFile() const { return Exists(RunFile()); }

bool RunFolder::HoldsRun() const { return HasRunFile() || !CheckpointStore(CheckpointDirectory()).Steps().empty(); }

std::optional<std::string> RunFolder::ForeignName() const {
  if (!Exists(path_) || HoldsRun()) return std::nullopt;
  for (const std::string& name : ListDirectory(path_)) {
    if (name == kLockName || IsTemporaryName(name)) continue;
    // True for a run that was cut before it had saved its first weights.
    if (name == kCheckpointsName && KindOf(CheckpointDirectory()) == PathKind::kDirectory) {
      const std::vector<std::string> begun = ListDirectory(CheckpointDirectory());
      if (std::all_of(begun.begin(), begun.end(), IsTemporaryName)) continue;
    }
    return name;
  }
  return std::nullopt;
}

Json RunFolder::ReadRunFile() const {
  if (!HasRunFile()) Fail(ErrorKind::kData, path_, ": there is no run here (no run.json)");
  Json run;
  try {
    run = ReadJsonFile(RunFile());
    if (!run.is_object()) Fail(ErrorKind::kData, RunFile(), ": not a JSON object");
  } catch (const Error& error) {
    const bool checkpoints =
        error.kind() == ErrorKind::kData && !CheckpointStore(CheckpointDirectory()).Steps().empty();
    Fail(error.kind(), error.what(),
         checkpoints ? "; once it is moved away, the run goes on from its checkpoints" : "");
  }
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

namespace {

// Calls make(), whose error is one of the field "out".
template <typename Make>
auto MakeAsOut(const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    FailField(error.kind(), "out", error.what(), "; choose another folder");
  }
}

}  // namespace

void CreateOutFolder(const std::string& path) {
  MakeAsOut([&] { CreateDirectories(path); });
}

RunLock::RunLock(const std::string& folder) : RunLock(WithoutTrailingSlash(folder), Created::kNo) {
  CreateOutFolder(ParentOf(folder_));
  Lock();
}

std::unique_ptr<RunLock> RunLock::OfNewFolder(const std::string& parent, const std::string& name) {
  CreateOutFolder(parent);
  for (int number = 1;; ++number) {
    const std::string path = StrCat(parent, "/", name, "-", number);
    if (!MakeAsOut([&] { return CreateDirectory(path); })) continue;
    std::unique_ptr<RunLock> lock(new RunLock(path, Created::kYes));
    lock->Lock();
    return lock;
  }
}

RunLock::RunLock(std::string folder, Created created)
    : folder_(std::move(folder)), created_(created == Created::kYes) {}

// Until the file that is locked is the one that is there: a start that fails takes its lock and its folder away.
void RunLock::Lock() {
  for (int attempt = 0; !IsHeld(); ++attempt) {
    Release();
    if (MakeAsOut([&] { return CreateDirectory(folder_); })) created_ = true;
    descriptor_ = OpenFile(LockFile(), O_RDWR | O_CREAT, 0644);
    if (descriptor_ < 0) {
      if (errno == ENOENT && attempt < kLockAttempts) continue;
      FailWriting("create", LockFile(), errno);
    }
    if (const int error = LockDescriptor(descriptor_); error != 0) {
      Release();
      CROSSTALK_CHECK(error != EWOULDBLOCK, folder_,
                      ": another process is training there; wait for it, or choose another folder");
      FailWriting("lock", LockFile(), error);
    }
  }
  WriteHolder();
}

// For people who look who works where; a lock whose holder cannot be written down is one all the same. A file of that
// name that is somebody's, or a link to one, stays as it is.
void RunLock::WriteHolder() {
  struct stat there;
  if (lstat(LockFile().c_str(), &there) != 0 || !S_ISREG(there.st_mode) || there.st_nlink != 1) return;
  if (there.st_size != 0 && ReadHolder(descriptor_).empty()) return;
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  const std::string holder = StrCat(host[0] == '\0' ? "unknown" : host, kProcess, getpid(), "\n");
  if (ftruncate(descriptor_, 0) != 0) return;
  wrote_holder_ = pwrite(descriptor_, holder.data(), holder.size(), 0) > 0;
}

std::optional<std::string> RunLock::HolderOf(const std::string& folder) {
  const int descriptor = OpenFile(folder + "/" + kLockName, O_RDONLY | O_NONBLOCK, 0);
  if (descriptor < 0) return std::nullopt;
  struct stat there;
  const bool is_lock = fstat(descriptor, &there) == 0 && S_ISREG(there.st_mode);
  const bool held =
      is_lock && RetryInterrupted([&] { return flock(descriptor, LOCK_SH | LOCK_NB); }) != 0 && errno == EWOULDBLOCK;
  const std::string holder = held ? ReadHolder(descriptor) : "";
  close(descriptor);
  if (!held) return std::nullopt;
  return holder.empty() ? "another process" : Excerpt(holder);
}

void RunLock::Release() {
  // A command that is refused leaves the folder as it was.
  if (std::exchange(wrote_holder_, false)) [[maybe_unused]]
    const int cleared = ftruncate(descriptor_, 0);
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
}

RunLock::~RunLock() {
  try {
    bool unused = created_ && descriptor_ < 0;
    if (created_ && IsHeld() && ListDirectory(folder_) == std::vector<std::string>{kLockName}) {
      unused = RemoveTree(LockFile()) == 0;
    }
    if (unused) rmdir(folder_.c_str());  // does nothing if it is not empty
  } catch (const std::exception&) {
    // The folder stays.
  }
  Release();
}

bool RunLock::IsHeld() const {
  struct stat locked, there;
  if (descriptor_ < 0) return false;
  if (RetryInterrupted([&] { return fstat(descriptor_, &locked); }) != 0) FailReading("examine", LockFile(), errno);
  if (RetryInterrupted([&] { return stat(LockFile().c_str(), &there); }) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    FailReading("examine", LockFile(), errno);
  }
  return locked.st_dev == there.st_dev && locked.st_ino == there.st_ino;
}

void RunLock::CheckHeld() const {
  if (IsHeld()) return;
  Fail(ErrorKind::kFailure, folder_,
       ": it or its lock was moved, removed or replaced while this process trained there; nothing more is written. If "
       "it was moved, resume it at its new place");
}

}  // namespace crosstalk
