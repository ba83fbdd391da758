#include "crosstalk/runtime/atomic_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/file_calls.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr int kNameAttempts = 1000;

// The prefix of the temporary names for `path`.
std::string TemporaryPrefix(const std::string& path) {
  return StrCat(".", std::filesystem::path(path).filename().string(), ".tmp-");
}

// A name beside `path` that no other call of this process uses, and none of another with the same file system and
// numbers of processes.
std::string TemporaryBeside(const std::string& path) {
  static std::atomic<uint64_t> counter{0};
  const std::string name = StrCat(TemporaryPrefix(path), getpid(), "-", counter++);
  return (std::filesystem::path(path).parent_path() / name).string();
}

// Whether the path is nothing any more, or something else than what is open.
bool IsGone(int descriptor, const std::string& path) {
  struct stat held, there;
  if (RetryInterrupted([&] { return lstat(path.c_str(), &there); }) != 0) return errno == ENOENT;
  if (RetryInterrupted([&] { return fstat(descriptor, &held); }) != 0) return false;
  return held.st_dev != there.st_dev || held.st_ino != there.st_ino;
}

// Locks a file or directory; -1 with errno where it cannot: EWOULDBLOCK where somebody holds it, ENOENT where it is
// no longer there.
int Locked(const std::string& path) {
  int descriptor = OpenFile(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0 && errno == EISDIR) descriptor = OpenFile(path, O_RDONLY | O_NOFOLLOW | O_DIRECTORY);
  if (descriptor < 0) return -1;
  int error = RetryInterrupted([&] { return flock(descriptor, LOCK_EX | LOCK_NB); }) == 0 ? 0 : errno;
  if (error == 0 && IsGone(descriptor, path)) error = ENOENT;
  if (error == 0) return descriptor;
  close(descriptor);
  errno = error;
  return -1;
}

// Removes what killed processes left of `path`. Files that cannot be removed or locked stay; they do no harm.
void RemoveAbandoned(const std::string& path) {
  const std::string prefix = TemporaryPrefix(path);
  std::vector<std::string> names;
  if (NamesIn(ParentOf(path), 0, &names) != 0) return;
  for (const std::string& name : names) {
    const bool numbered = name.find_first_not_of("0123456789-", prefix.size()) == std::string::npos;
    if (!name.starts_with(prefix) || !numbered) continue;
    const std::string abandoned = ParentOf(path) + "/" + name;
    const int descriptor = Locked(abandoned);
    if (descriptor < 0) continue;
    RemoveTree(abandoned);
    close(descriptor);
  }
}

bool CreateNew(const std::string& path, TemporaryPlace::Kind kind) {
  if (kind == TemporaryPlace::Kind::kDirectory) {
    return RetryInterrupted([&] { return mkdir(path.c_str(), 0777); }) == 0;
  }
  const int descriptor = OpenFile(path, O_WRONLY | O_CREAT | O_EXCL);
  if (descriptor >= 0) close(descriptor);
  return descriptor >= 0;
}

// The system would end it at a NUL.
void CheckWhole(const std::string& path) {
  CROSSTALK_CHECK(path.find('\0') == std::string::npos, Quoted(path), ": has a NUL character in it");
}

// Where a file named `path` is to be put: its symbolic links are followed. Renaming over a device or a pipe would
// replace it by a file, so these are refused.
std::string ReplaceableFile(const std::string& path) {
  CheckWhole(path);
  struct stat status;
  if (RetryInterrupted([&] { return stat(path.c_str(), &status); }) != 0) {
    if (errno == ENOENT) return path;  // also a link to nothing, which then is replaced itself
    FailWriting("put in place", path, errno);
  }
  if (!S_ISREG(status.st_mode)) {
    Fail(ErrorKind::kFailure, path, ": cannot put in place: is ",
         S_ISDIR(status.st_mode) ? "a directory" : "not a regular file", "; name a file");
  }
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  if (error) FailWriting("put in place", path, error.value());
  return target.string();
}

std::string WithParents(std::string path) {
  CreateDirectories(ParentOf(path));
  return path;
}

bool Rename(const std::string& from, const std::string& to) {
  return RetryInterrupted([&] { return rename(from.c_str(), to.c_str()); }) == 0;
}

}  // namespace

FileReader::FileReader(std::string path) : path_(std::move(path)) {
  CheckWhole(path_);
  // Not blocking: opening a pipe must not wait for a writer.
  descriptor_ = OpenFile(path_, O_RDONLY | O_NONBLOCK);
  if (descriptor_ < 0) FailReading("open", path_, errno);
  struct stat status;
  const int error = RetryInterrupted([&] { return fstat(descriptor_, &status); }) == 0 ? 0 : errno;
  if (error != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor_);
    if (error != 0) FailReading("read", path_, error);
    Fail(ErrorKind::kData, path_, ": is ", S_ISDIR(status.st_mode) ? "a directory" : "not a regular file");
  }
  size_ = static_cast<uint64_t>(status.st_size);
}

FileReader::~FileReader() { close(descriptor_); }

FileStamp FileReader::Stamp() const {
  struct stat status;
  if (RetryInterrupted([&] { return fstat(descriptor_, &status); }) != 0) FailReading("read", path_, errno);
  return {status.st_dev, status.st_ino, static_cast<uint64_t>(status.st_size), status.st_mtim.tv_sec,
          status.st_mtim.tv_nsec};
}

void FileReader::ReadAt(uint64_t offset, void* out, size_t size) const {
  auto* bytes = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t got = RetryInterrupted([&] { return pread(descriptor_, bytes, size, static_cast<off_t>(offset)); });
    if (got < 0) FailReading(StrCat("read at byte ", offset), path_, errno);
    if (got == 0) Fail(ErrorKind::kData, path_, ": ends at byte ", offset, ", ", size, " bytes too early");
    bytes += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<size_t>(got);
  }
}

std::string ReadFile(const std::string& path, uint64_t max_bytes) {
  const FileReader file(path);
  if (file.size() > max_bytes) {
    Fail(ErrorKind::kData, path, ": has ", file.size(), " bytes, more than the ", max_bytes, " that are read here");
  }
  std::string bytes(file.size(), '\0');
  file.ReadAt(0, bytes.data(), bytes.size());
  return bytes;
}

FileWriter::FileWriter(const std::string& path, std::string shown_path) : shown_path_(std::move(shown_path)) {
  descriptor_ = OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (descriptor_ < 0) FailWriting("create", shown_path_, errno);
}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) close(descriptor_);
}

void FileWriter::Write(const void* data, size_t size) {
  CROSSTALK_CHECK(descriptor_ >= 0, shown_path_, ": written to after Finish");
  crc64_.Update(data, size);
  if (!WriteAll(descriptor_, data, size)) FailWriting("write", shown_path_, errno);
  bytes_written_ += size;
}

void FileWriter::Finish() {
  if (descriptor_ < 0) return;
  // Pipes and devices have nothing to synchronise.
  const bool synced = RetryInterrupted([&] { return fsync(descriptor_); }) == 0 || errno == EINVAL || errno == EROFS;
  const int sync_error = errno;
  const bool closed = close(std::exchange(descriptor_, -1)) == 0;
  if (!synced) FailWriting("synchronise", shown_path_, sync_error);
  if (!closed && errno != EINTR) FailWriting("close", shown_path_, errno);
}

TemporaryPlace::TemporaryPlace(const std::string& path, Kind kind, const std::string& shown_path) {
  RemoveAbandoned(path);
  for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
    path_ = TemporaryBeside(path);
    if (!CreateNew(path_, kind)) {
      if (errno == EEXIST) continue;
      FailWriting(kind == Kind::kFile ? "create" : "create the directory", shown_path.empty() ? path_ : shown_path,
                  errno);
    }
    descriptor_ = Locked(path_);
    // Who removes what is abandoned may have come between, and has it or has removed it.
    if (descriptor_ >= 0 || (errno != EWOULDBLOCK && errno != ENOENT)) return;
  }
  FailWriting("create", shown_path.empty() ? path_ : shown_path, EEXIST);
}

TemporaryPlace::~TemporaryPlace() {
  try {
    if (!moved_) RemoveTree(path_);
  } catch (const std::bad_alloc&) {
    // It stays, and is abandoned.
  }
  if (descriptor_ >= 0) close(descriptor_);
}

AtomicFile::AtomicFile(const std::string& path)
    : path_(ReplaceableFile(path)),
      temporary_(path_, TemporaryPlace::Kind::kFile, path),
      writer_(temporary_.path(), path) {}

void AtomicFile::Commit() {
  writer_.Finish();
  if (!Rename(temporary_.path(), path_)) FailWriting("put in place", path_, errno);
  temporary_.SetMoved();
  SyncDirectory(ParentOf(path_));
}

void WriteFileAtomically(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.writer().Write(bytes);
  file.Commit();
}

void SyncDirectory(const std::string& path) {
  const int descriptor = OpenFile(path, O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) FailWriting("open the directory", path, errno);
  // Some file systems cannot synchronise a directory, and say so.
  const bool synced = RetryInterrupted([&] { return fsync(descriptor); }) == 0 || errno == EINVAL || errno == ENOTSUP;
  const int error = errno;
  close(descriptor);
  if (!synced) FailWriting("synchronise the directory", path, error);
}

PathKind KindOf(const std::string& path) {
  CheckWhole(path);
  struct stat status;
  if (RetryInterrupted([&] { return stat(path.c_str(), &status); }) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) FailReading("examine", path, errno);
    return lstat(path.c_str(), &status) == 0 ? PathKind::kOther : PathKind::kNothing;
  }
  if (S_ISDIR(status.st_mode)) return PathKind::kDirectory;
  return S_ISREG(status.st_mode) ? PathKind::kFile : PathKind::kOther;
}

bool CreateDirectory(const std::string& path) {
  const std::string directory = WithoutTrailingSlash(path);
  if (RetryInterrupted([&] { return mkdir(directory.c_str(), 0777); }) != 0) {
    if (errno != EEXIST) FailWriting("create the directory", path, errno);
    return false;
  }
  SyncDirectory(ParentOf(directory));
  return true;
}

void CreateDirectories(const std::string& path) {
  const PathKind kind = KindOf(path);
  if (kind == PathKind::kDirectory) return;
  if (kind != PathKind::kNothing) FailWriting("create the directory", path, ENOTDIR);
  const std::string directory = WithoutTrailingSlash(path);
  const std::string parent = ParentOf(directory);
  if (parent != directory) CreateDirectories(parent);
  CreateDirectory(directory);
}

void RemoveAll(const std::string& path) {
  if (const int error = RemoveTree(path)) FailWriting("remove", path, error);
}

std::vector<std::string> ListDirectory(const std::string& path) {
  std::vector<std::string> names;
  if (const int error = NamesIn(path, 0, &names)) FailReading("read the directory", path, error);
  std::sort(names.begin(), names.end());
  return names;
}

void CheckNewDirectory(const std::string& path) {
  const PathKind kind = KindOf(path);
  if (kind == PathKind::kNothing || (kind == PathKind::kDirectory && ListDirectory(path).empty())) {
    // Its parents are made if they are missing.
    std::string parent = ParentOf(WithoutTrailingSlash(path));
    while (KindOf(parent) == PathKind::kNothing && parent != ParentOf(parent)) parent = ParentOf(parent);
    if (RetryInterrupted([&] { return access((parent + "/.").c_str(), W_OK | X_OK); }) == 0) return;
    FailWriting("create the directory", path, errno);
  }
  Fail(ErrorKind::kUsage, path, kind == PathKind::kDirectory ? ": is a folder that holds something" : ": is a file",
       " already; name another");
}

DirectoryTransaction::DirectoryTransaction(std::string path, OldDirectory old)
    : path_(WithParents(WithoutTrailingSlash(std::move(path)))),
      temporary_(path_, TemporaryPlace::Kind::kDirectory),
      old_(old) {}

void DirectoryTransaction::Commit() {
  CROSSTALK_CHECK(!committed_, path_, ": committed twice");
  SyncDirectory(temporary_.path());
  std::string replaced;
  // In one step, over nothing or an empty directory only.
  if (!Rename(temporary_.path(), path_)) {
    const int error = errno;
    if (old_ == OldDirectory::kKept) CheckNewDirectory(path_);
    if (old_ == OldDirectory::kKept || (error != ENOTEMPTY && error != EEXIST)) {
      FailWriting("put in place", path_, error);
    }
    replaced = Exchange();
  }
  temporary_.SetMoved();
  committed_ = true;
  SyncDirectory(ParentOf(path_));
  if (!replaced.empty()) RemoveTree(replaced);  // what cannot be removed is RemoveTemporaries' to take
}

// Exchanges the temporary directory and the one that is at `path_`; where the old one then is.
std::string DirectoryTransaction::Exchange() {
  const std::string& temporary = temporary_.path();
  const auto exchange = [&] {
    return renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE);
  };
  if (RetryInterrupted(exchange) == 0) return temporary;
  if (errno != EINVAL && errno != ENOSYS) FailWriting("replace", path_, errno);
  // A file system that cannot exchange: for a moment there is neither, and a crash then leaves the old one under
  // a temporary name.
  std::string aside = TemporaryBeside(path_);
  if (!Rename(path_, aside)) FailWriting("replace", path_, errno);
  if (!Rename(temporary, path_)) {
    const int error = errno;
    Rename(aside, path_);
    FailWriting("replace", path_, error);
  }
  return aside;
}

bool IsTemporaryName(std::string_view name) {
  return !name.empty() && name[0] == '.' && name.find(".tmp-") != std::string_view::npos;
}

void RemoveAtomically(const std::string& path) {
  const std::string clean = WithoutTrailingSlash(path);
  const std::string temporary = TemporaryBeside(clean);
  if (!Rename(clean, temporary)) FailWriting("remove", clean, errno);
  SyncDirectory(ParentOf(clean));
  RemoveAll(temporary);
}

RemovedTemporaries RemoveTemporaries(const std::string& directory) {
  RemovedTemporaries result;
  for (const std::string& name : ListDirectory(directory)) {
    if (!IsTemporaryName(name)) continue;
    const std::string path = directory + "/" + name;
    const int descriptor = Locked(path);
    if (descriptor < 0 && errno == EWOULDBLOCK) continue;
    const int error = RemoveTree(path);
    if (descriptor >= 0) close(descriptor);
    if (error != 0) {
      result.failed.push_back(StrCat(path, ": cannot remove: ", ReasonOf(error)));
    } else {
      result.removed.push_back(name);
    }
  }
  return result;
}

}  // namespace crosstalk
