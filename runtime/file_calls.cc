#include "crosstalk/runtime/file_calls.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "crosstalk/runtime/check.h"

namespace crosstalk {

int OpenFile(const std::string& path, int flags, mode_t mode) {
  const int descriptor = RetryInterrupted([&] { return open(path.c_str(), flags | O_CLOEXEC, mode); });
  if (descriptor < 0 || descriptor > 2) return descriptor;
  const int moved = RetryInterrupted([&] { return fcntl(descriptor, F_DUPFD_CLOEXEC, 3); });
  const int error = errno;
  close(descriptor);
  errno = error;
  return moved;
}

bool WriteAll(int descriptor, const void* data, size_t size) {
  const auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t done = RetryInterrupted([&] { return write(descriptor, bytes, size); });
    if (done < 0) return false;
    bytes += done;
    size -= static_cast<size_t>(done);
  }
  return true;
}

int NamesIn(const std::string& directory, int flags, std::vector<std::string>* names) {
  const int descriptor = OpenFile(directory, O_RDONLY | O_DIRECTORY | flags);
  if (descriptor < 0) return errno;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(descriptor), closedir);
  if (stream == nullptr) {
    const int error = errno;
    close(descriptor);
    return error;
  }
  while (true) {
    errno = 0;
    const dirent* entry = readdir(stream.get());
    if (entry == nullptr && errno == EINTR) continue;
    if (entry == nullptr) return errno;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names->emplace_back(name);
  }
}

namespace {

// Removes what is in a directory.
int RemoveEntries(const std::string& path) {
  std::vector<std::string> names;
  if (const int error = NamesIn(path, O_NOFOLLOW, &names)) return error;
  for (const std::string& name : names) {
    if (const int error = RemoveTree(path + "/" + name)) return error;
  }
  return 0;
}

bool IsMissing(int error) { return error == ENOENT || error == ENOTDIR; }

}  // namespace

int RemoveTree(const std::string& path) {
  if (RetryInterrupted([&] { return unlink(path.c_str()); }) == 0 || IsMissing(errno)) return 0;
  if (errno != EISDIR && errno != EPERM) return errno;  // the latter is POSIX's word for a directory
  const int refused = errno;
  const int failed = RemoveEntries(path);
  if (failed == ENOTDIR) return refused;
  if (failed != 0) return IsMissing(failed) ? 0 : failed;
  if (RetryInterrupted([&] { return rmdir(path.c_str()); }) == 0 || IsMissing(errno)) return 0;
  return errno;
}

std::string WithoutTrailingSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string ParentOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::string ReasonOf(int error) { return std::generic_category().message(error); }

void FailWriting(const std::string& doing, const std::string& path, int error) {
  const bool no_room = error == ENOSPC || error == EDQUOT || error == EFBIG;
  const bool no_resource = error == ENOMEM || error == EMFILE || error == ENFILE;
  Fail(no_room || no_resource ? ErrorKind::kResource : ErrorKind::kFailure, path, ": cannot ", doing, ": ",
       ReasonOf(error), no_room ? "; free some space or choose another folder" : "");
}

void FailReading(const std::string& doing, const std::string& path, int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENXIO:
      Fail(ErrorKind::kData, path, ": cannot ", doing, ": ", ReasonOf(error));
    default:
      FailWriting(doing, path, error);
  }
}

}  // namespace crosstalk
