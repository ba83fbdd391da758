#include "crosstalk/runtime/atomic_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

std::string Reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void FailWriting(const std::string& doing, const std::string& path, int error) {
  const bool no_room = error == ENOSPC || error == EDQUOT || error == EFBIG || error == ENOMEM;
  Fail(no_room ? ErrorKind::kResource : ErrorKind::kFailure, path, ": cannot ", doing, ": ", Reason(error),
       no_room ? "; free some space or choose another folder" : "");
}

std::string ParentOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// "a/b/" and "a/b" are the same directory.
std::string WithoutTrailingSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

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
  if (stat(path.c_str(), &status) != 0) return path;
  if (!S_ISREG(status.st_mode)) {
    Fail(ErrorKind::kFailure, path, ": cannot put in place: is ",
         S_ISDIR(status.st_mode) ? "a directory" : "not a regular file", "; name a file");
  }
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

template <typename Call>
auto Retry(Call&& call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace

FileReader::FileReader(std::string path) : path_(std::move(path)) {
  // Not blocking: opening a pipe must not wait for a writer.
  descriptor_ = Retry([&] { return open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (descriptor_ < 0) Fail(ErrorKind::kData, path_, ": cannot open: ", Reason(errno));
  struct stat status;
  const int error = fstat(descriptor_, &status) == 0 ? 0 : errno;
  if (error != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor_);
    if (error != 0) Fail(ErrorKind::kData, path_, ": cannot read: ", Reason(error));
    Fail(ErrorKind::kData, path_, ": is ", S_ISDIR(status.st_mode) ? "a directory" : "not a regular file");
  }
  size_ = static_cast<uint64_t>(status.st_size);
}

FileReader::~FileReader() { close(descriptor_); }

void FileReader::ReadAt(uint64_t offset, void* out, size_t size) const {
  auto* bytes = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t got = Retry([&] { return pread(descriptor_, bytes, size, static_cast<off_t>(offset)); });
    if (got < 0) Fail(ErrorKind::kData, path_, ": cannot read at byte ", offset, ": ", Reason(errno));
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
  descriptor_ = Retry([&] { return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); });
  if (descriptor_ < 0) FailWriting("create", shown_path_, errno);
}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) close(descriptor_);
}

void FileWriter::Write(const void* data, size_t size) {
  CROSSTALK_CHECK(descriptor_ >= 0, shown_path_, ": written to after Finish");
  const auto* bytes = static_cast<const char*>(data);
  crc64_.Update(data, size);
  while (size > 0) {
    const ssize_t done = Retry([&] { return write(descriptor_, bytes, size); });
    if (done < 0) FailWriting("write", shown_path_, errno);
    bytes += done;
    bytes_written_ += static_cast<uint64_t>(done);
    size -= static_cast<size_t>(done);
  }
}

void FileWriter::Finish() {
  if (descriptor_ < 0) return;
  // Pipes and devices have nothing to synchronise.
  const bool synced = fsync(descriptor_) == 0 || errno == EINVAL || errno == EROFS;
  const int sync_error = errno;
  const bool closed = close(std::exchange(descriptor_, -1)) == 0;
  if (!synced) FailWriting("synchronise", shown_path_, sync_error);
  if (!closed && errno != EINTR) FailWriting("close", shown_path_, errno);
}

AtomicFile::AtomicFile(const std::string& path)
    : path_(ReplaceableFile(path)), temporary_path_(TemporaryBeside(path_)), writer_(temporary_path_, path) {}

AtomicFile::~AtomicFile() {
  if (!committed_) unlink(temporary_path_.c_str());
}

void AtomicFile::Commit() {
  writer_.Finish();
  if (rename(temporary_path_.c_str(), path_.c_str()) != 0) FailWriting("put in place", path_, errno);
  committed_ = true;
  SyncDirectory(ParentOf(path_));
}

void WriteFileAtomically(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.writer().Write(bytes);
  file.Commit();
}

void SyncDirectory(const std::string& path) {
  const int descriptor = Retry([&] { return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (descriptor < 0) FailWriting("open the directory", path, errno);
  // Some file systems cannot synchronise a directory, and say so.
  const bool synced = fsync(descriptor) == 0 || errno == EINVAL || errno == ENOTSUP;
  const int error = errno;
  close(descriptor);
  if (!synced) FailWriting("synchronise the directory", path, error);
}

void CreateDirectories(const std::string& path) {
  const std::string directory = WithoutTrailingSlash(path);
  struct stat status;
  if (stat(directory.c_str(), &status) == 0) {
    if (!S_ISDIR(status.st_mode)) FailWriting("create the directory", path, ENOTDIR);
    return;
  }
  if (errno != ENOENT) FailWriting("create the directory", path, errno);
  const std::string parent = ParentOf(directory);
  if (parent != directory) CreateDirectories(parent);
  if (mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) FailWriting("create the directory", path, errno);
  SyncDirectory(parent);
}

void RemoveAll(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) FailWriting("remove", path, error.value());
}

std::vector<std::string> ListDirectory(const std::string& path) {
  DIR* directory = opendir(path.c_str());
  if (directory == nullptr) Fail(ErrorKind::kData, path, ": cannot read the directory: ", Reason(errno));
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(directory)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  const int error = errno;
  closedir(directory);
  if (error != 0) Fail(ErrorKind::kData, path, ": cannot read the directory: ", Reason(error));
  std::sort(names.begin(), names.end());
  return names;
}

DirectoryTransaction::DirectoryTransaction(std::string path) : path_(WithoutTrailingSlash(std::move(path))) {
  CreateDirectories(ParentOf(path_));
  temporary_path_ = TemporaryBeside(path_);
  if (mkdir(temporary_path_.c_str(), 0777) != 0) FailWriting("create the directory", temporary_path_, errno);
}

DirectoryTransaction::~DirectoryTransaction() {
  if (committed_) return;
  std::error_code ignored;
  std::filesystem::remove_all(temporary_path_, ignored);
}

void DirectoryTransaction::Commit() {
  CROSSTALK_CHECK(!committed_, path_, ": committed twice");
  SyncDirectory(temporary_path_);
  const std::string parent = ParentOf(path_);
  if (rename(temporary_path_.c_str(), path_.c_str()) == 0) {
    committed_ = true;
    SyncDirectory(parent);
    return;
  }
  if (errno != ENOTEMPTY && errno != EEXIST) FailWriting("put in place", path_, errno);
  if (renameat2(AT_FDCWD, temporary_path_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL && errno != ENOSYS) FailWriting("replace", path_, errno);
    // A file system that cannot exchange: for a moment there is neither, and a crash then leaves the old one under
    // a temporary name.
    const std::string aside = TemporaryBeside(path_);
    if (rename(path_.c_str(), aside.c_str()) != 0) FailWriting("replace", path_, errno);
    if (rename(temporary_path_.c_str(), path_.c_str()) != 0) {
      const int error = errno;
      rename(aside.c_str(), path_.c_str());
      FailWriting("replace", path_, error);
    }
    temporary_path_ = aside;
  }
  committed_ = true;
  SyncDirectory(parent);
  RemoveAll(temporary_path_);  // the old directory
}

bool IsTemporaryName(std::string_view name) {
  return !name.empty() && name[0] == '.' && name.find(".tmp-") != std::string_view::npos;
}

void RemoveAtomically(const std::string& path) {
  const std::string clean = WithoutTrailingSlash(path);
  const std::string temporary = TemporaryBeside(clean);
  if (rename(clean.c_str(), temporary.c_str()) != 0) FailWriting("remove", clean, errno);
  SyncDirectory(ParentOf(clean));
  RemoveAll(temporary);
}

std::vector<std::string> RemoveTemporaries(const std::string& directory) {
  std::vector<std::string> removed;
  for (const std::string& name : ListDirectory(directory)) {
    if (!IsTemporaryName(name)) continue;
    RemoveAll(directory + "/" + name);
    removed.push_back(name);
  }
  return removed;
}

}  // namespace crosstalk
