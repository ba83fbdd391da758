// What the run folder's code does when the system's calls on files fail: those that it makes are defined here, and so
// taken instead of the C library's.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crosstalk/models/training/run.h"
#include "crosstalk/runtime/file_calls.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_models.h"

namespace {

// The calls of this name on paths that contain `part` fail with `error`; where every_other is set, each of all calls
// fails the first time it is made.
struct Fault {
  std::string call;
  std::string part;
  int error = 0;
  bool every_other = false;
};
Fault fault;
std::set<std::string> interrupted;  // calls that have failed by every_other
bool failed_last = false;

bool Fails(const char* call, const char* path) {
  if (fault.every_other) {
    failed_last = !failed_last;
    if (failed_last) {
      interrupted.insert(call);
      errno = EINTR;
    }
    return failed_last;
  }
  if (fault.error == 0 || fault.call != call || std::string(path).find(fault.part) == std::string::npos) return false;
  errno = fault.error;
  return true;
}

class FaultScope {
 public:
  explicit FaultScope(Fault of) { fault = std::move(of); }
  ~FaultScope() { fault = {}; }
};

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return Fails("open", path) ? -1 : static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
int stat(const char* path, struct stat* status) noexcept {
  return Fails("stat", path) ? -1 : static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, status, 0));
}
int mkdir(const char* path, mode_t mode) noexcept {
  return Fails("mkdir", path) ? -1 : static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
int rename(const char* from, const char* to) noexcept {
  return Fails("rename", from) ? -1 : static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int renameat2(int, const char* from, int, const char* to, unsigned flags) noexcept {
  return Fails("renameat2", from) ? -1 : static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags));
}
int unlink(const char* path) noexcept {
  return Fails("unlink", path) ? -1 : static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}
int rmdir(const char* path) noexcept {
  return Fails("rmdir", path) ? -1 : static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}
dirent* readdir(DIR* directory) {
  static const auto next = reinterpret_cast<dirent* (*)(DIR*)>(dlsym(RTLD_NEXT, "readdir"));
  return Fails("readdir", "") ? nullptr : next(directory);
}
int fsync(int descriptor) { return Fails("fsync", "") ? -1 : static_cast<int>(syscall(SYS_fsync, descriptor)); }
int flock(int descriptor, int operation) noexcept {
  return Fails("flock", "") ? -1 : static_cast<int>(syscall(SYS_flock, descriptor, operation));
}
ssize_t write(int descriptor, const void* bytes, size_t size) {
  return Fails("write", "") ? -1 : syscall(SYS_write, descriptor, bytes, size);
}

}  // extern "C"

namespace crosstalk::file_faults_test {

using testing::Contains;
using testing::MessageOf;

using Steps = std::vector<int64_t>;

std::vector<CheckpointFile> FilesOf(int64_t step) { return {BytesFile("state.json", std::to_string(step))}; }

TEST(FileFaultsTest, EachCallIsRepeatedWhenASignalInterruptsIt) {
  const TempDir dir;
  {
    const FaultScope scope({.every_other = true});
    const auto lock = RunLock::OfNewFolder(dir / "runs", "t5");
    const RunFolder folder(lock->folder());
    WriteFileAtomically(folder.RunFile(), "{}");
    MetricsLog(folder.MetricsFile(), 0, MetricsLog::Evaluated::kNo).Append(Json::MakeObject({{"step", 1}}));
    CheckpointStore store(folder.CheckpointDirectory());
    for (int64_t step : {1, 2, 2, 3}) store.Save(step, FilesOf(step));
    const CheckpointStore::Pruned pruned = store.Prune(1);
    EXPECT_EQ(pruned.removed, (Steps{1, 2}));
    EXPECT_TRUE(pruned.failed.empty()) << pruned.failed[0];
    lock->CheckHeld();
    EXPECT_TRUE(folder.HoldsRun());
    CreateDirectories(dir / "unused");
    RemoveAll(dir / "unused");
  }
  EXPECT_EQ(interrupted, (std::set<std::string>{"flock", "fsync", "mkdir", "open", "readdir", "rename", "renameat2",
                                                "rmdir", "stat", "unlink", "write"}));
  EXPECT_EQ(ListDirectory(dir.path()), std::vector<std::string>{"runs"});
  EXPECT_EQ(ListDirectory(dir / "runs/t5-1/checkpoints"), std::vector<std::string>{"step-00000003"});
  EXPECT_EQ(ReadFile(dir / "runs/t5-1/metrics.jsonl"), "{\"step\": 1}\n");
}

// A manifest that cannot be read tells nothing of its checkpoint, which may be the best or the newest.
TEST(FileFaultsTest, ACheckpointThatCannotBeReadIsNeitherDamagedNorRemoved) {
  for (const int error : {EIO, EMFILE, EACCES, ENOMEM}) {
    SCOPED_TRACE(ReasonOf(error));
    const TempDir dir;
    CheckpointStore store(dir.path());
    for (int64_t step = 1; step <= 6; ++step) store.Save(step, FilesOf(step), step == 2 ? 1.0 : 2.0 + step);
    {
      const FaultScope scope({.call = "open", .part = "step-00000002/manifest.json", .error = error});
      EXPECT_EQ(store.Prune(2).removed, (Steps{3, 4}));  // 1 is the best of those that can be read
      EXPECT_THROW(store.FindBest(), Error);
    }
    EXPECT_EQ(store.FindBest().checkpoint->step, 2);
    EXPECT_EQ(store.Prune(2).removed, Steps{1});
    EXPECT_EQ(store.Steps(), (Steps{2, 5, 6}));
    const FaultScope scope({.call = "open", .part = "step-00000006/manifest.json", .error = error});
    const bool resource = error == EMFILE || error == ENOMEM;
    const std::string message = MessageOf([&] { CheckpointStore(dir.path()).FindNewestGood(); },
                                          resource ? ErrorKind::kResource : ErrorKind::kFailure);
    EXPECT_TRUE(Contains(message, "step-00000006/manifest.json: cannot open: " + ReasonOf(error))) << message;
  }
}

TEST(FileFaultsTest, WhatCannotBeRemovedIsRemovedTheNextTime) {
  for (const char* call : {"rename", "unlink", "rmdir"}) {
    SCOPED_TRACE(call);
    const TempDir dir;
    CheckpointStore store(dir.path());
    for (int64_t step = 1; step <= 4; ++step) store.Save(step, FilesOf(step));
    {
      const FaultScope scope({.call = call, .part = "step-00000001", .error = EBUSY});
      const CheckpointStore::Pruned pruned = store.Prune(1);
      EXPECT_EQ(pruned.removed, (Steps{2, 3}));
      ASSERT_EQ(pruned.failed.size(), 1u);
      EXPECT_TRUE(Contains(pruned.failed[0], "step-00000001")) << pruned.failed[0];
      EXPECT_TRUE(Contains(pruned.failed[0], ReasonOf(EBUSY))) << pruned.failed[0];
    }
    EXPECT_TRUE(store.Prune(1).failed.empty());
    EXPECT_EQ(ListDirectory(dir.path()), std::vector<std::string>{"step-00000004"});
  }
}

TEST(FileFaultsTest, ARunThatCannotBeLookedAtIsNotTakenForNone) {
  const TempDir dir;
  const RunFolder folder(dir.path());
  WriteFileAtomically(folder.RunFile(), "{}");
  for (const char* part : {"run.json", "checkpoints"}) {
    const FaultScope scope({.call = "stat", .part = part, .error = EIO});
    if (part == std::string("checkpoints")) RemoveAll(folder.RunFile());
    MessageOf([&] { folder.HoldsRun(); }, ErrorKind::kFailure);
    MessageOf([&] { folder.ForeignName(); }, ErrorKind::kFailure);
  }
}

TEST(FileFaultsTest, ACheckpointThatCannotBeRemovedDoesNotEndTheTraining) {
  const TempDir dir;
  std::vector<std::string> messages;
  TrainingObserver observer;
  observer.message = [&](const std::string& message) { messages.push_back(message); };
  const FaultScope scope({.call = "rename", .part = "/step-00000001", .error = EIO});
  TrainingRun run(TinyConfig(), dir / "run", {}, observer);
  EXPECT_EQ(run.Train().end, TrainingSummary::End::kFinished);
  ASSERT_EQ(messages.size(), 3u);  // when 2, 3 and 4 are saved
  for (const std::string& message : messages) {
    EXPECT_TRUE(Contains(message, "step-00000001: cannot remove: " + ReasonOf(EIO))) << message;
  }
  EXPECT_EQ(KindOf(dir / "run/model.safetensors"), PathKind::kFile);
}

// The failures are in a child, so that this process keeps its own descriptors.
TEST(FileFaultsTest, NoFileIsOpenedInPlaceOfAClosedStandardDescriptor) {
  const TempDir dir;
  WriteFileAtomically(dir / "file", "x");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (const int descriptor : {0, 1, 2}) close(descriptor);
    const auto free = [] {
      for (const int descriptor : {0, 1, 2}) {
        if (fcntl(descriptor, F_GETFD) != -1) return false;
      }
      return true;
    };
    try {
      const FileReader reader(dir / "file");
      FileWriter writer(dir / "written");
      AtomicFile file(dir / "replaced");
      const RunLock lock(dir / "run");
      const MetricsLog metrics(dir / "run/metrics.jsonl", 0, MetricsLog::Evaluated::kNo);
      _exit(free() ? 0 : 1);
    } catch (...) {
      _exit(2);
    }
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace crosstalk::file_faults_test
