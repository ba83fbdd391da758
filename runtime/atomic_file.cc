#include "crosstalk/runtime/atomic_file.h"

#include <fcntl.h>
#include <stdio.h>
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

namespace crosstalk {
namespace {

// A name beside `path` that no other call of this or another process uses.
std::string TemporaryBeside(const std::string& path) {
  static std::atomic<uint64_t> counter{0};
  const std::filesystem::path full(path);
  const std::string name = StrCat(".", full.filename().string(), ".tmp-", getpid(), "-", counter++);
  return (full.parent_path() / name).string();
}

// Where a file named `path` is to be put: behind its symbolic links. Renaming over a device or a pipe would replace it
// by a file, so these are refused.
std::string ReplaceableFile(const std::string& path) {
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

bool Rename(const std::string& from, const std::string& to) {
  return RetryInterrupted([&] { return rename(from.c_str(), to.c_str()); }) == 0;
}

}  // namespace

FileReader::FileReader(std::string path) : path_(std::move(path)) {
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

AtomicFile::AtomicFile(const std::string& path)
    : path_(ReplaceableFile(path)), temporary_path_(TemporaryBeside(path_)), writer_(temporary_path_, path) {}

AtomicFile::~AtomicFile() {
  if (!committed_) RemoveTree(temporary_path_);
}

void AtomicFile::Commit() {
  writer_.Finish();
  if (!Rename(temporary_path_, path_)) FailWriting("put in place", path_, errno);
  committed_ = true;
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
  struct stat status;
  if (RetryInterrupted([&] { return stat(path.c_str(), &status); }) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return PathKind::kNothing;
    FailReading("examine", path, errno);
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
  if (kind == PathKind::kNothing || (kind == PathKind::kDirectory && ListDirectory(path).empty())) return;
  Fail(ErrorKind::kUsage, path, kind == PathKind::kDirectory ? ": is a folder that holds something" : ": is a file",
       " already; name another");
}

DirectoryTransaction::DirectoryTransaction(std::string path, OldDirectory old)
    : path_(WithoutTrailingSlash(std::move(path))), old_(old) {
  CreateDirectories(ParentOf(path_));
  temporary_path_ = TemporaryBeside(path_);
  if (RetryInterrupted([&] { return mkdir(temporary_path_.c_str(), 0777); }) != 0) {
    FailWriting("create the directory", temporary_path_, errno);
  }
}

DirectoryTransaction::~DirectoryTransaction() {
  if (committed_) return;
  try {
    RemoveTree(temporary_path_);
  } catch (const std::bad_alloc&) {
    // It stays, for RemoveTemporaries.
  }
}

void DirectoryTransaction::Commit() {
  CROSSTALK_CHECK(!committed_, path_, ": committed twice");
  SyncDirectory(temporary_path_);
  // In one step in the place of nothing or of an empty directory, and of nothing else.
  const bool placed = Rename(temporary_path_, path_);
  if (!placed) {
    const int error = errno;
    if (old_ == OldDirectory::kKept) CheckNewDirectory(path_);
    if (old_ == OldDirectory::kKept || (error != ENOTEMPTY && error != EEXIST)) {
      FailWriting("put in place", path_, error);
    }
    Exchange();
  }
  committed_ = true;
  SyncDirectory(ParentOf(path_));
  if (!placed) RemoveTree(temporary_path_);  // the old one; what cannot be removed is RemoveTemporaries' to take
}

// Exchanges the temporary directory and the one that is at `path_`.
void DirectoryTransaction::Exchange() {
  const auto exchange = [&] {
    return renameat2(AT_FDCWD, temporary_path_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE);
  };
  if (RetryInterrupted(exchange) == 0) return;
  if (errno != EINVAL && errno != ENOSYS) FailWriting("replace", path_, errno);
  // A file system that cannot exchange: for a moment there is neither, and a crash then leaves the old one under
  // a temporary name.
  const std::string aside = TemporaryBeside(path_);
  if (!Rename(path_, aside)) FailWriting("replace", path_, errno);
  if (!Rename(temporary_path_, path_)) {
    const int error = errno;
    Rename(aside, path_);
    FailWriting("replace", path_, error);
  }
  temporary_path_ = aside;
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
    if (const int error = RemoveTree(path)) {
      result.failed.push_back(StrCat(path, ": cannot remove: ", ReasonOf(error)));
    } else {
      result.removed.push_back(name);
    }
  }
  return result;
}

}  // namespace crosstalk
