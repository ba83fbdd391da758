// Files that are whole or not there: reading with reasons, writing through a temporary file or directory that is
// synchronised to the disk and renamed. All errors name the path and the reason. Error(kData) is about what is at the
// path: nothing, a directory, a file that ends too early. Error(kResource): the disk is full, or memory or descriptors
// are used up. Error(kFailure): the system refused (permissions, a disk that cannot be read), so that nothing is known
// of the file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/checksum.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// Changes when a file is written or replaced: identifies contents without reading them.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t changed_seconds = 0;  // when it was last written to
  int64_t changed_nanoseconds = 0;
  bool operator==(const FileStamp&) const = default;
};

// A regular file open for reading.
class FileReader {
 public:
  // Error(kData) where the file is missing or not a regular file.
  explicit FileReader(std::string path);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // when it was opened
  FileStamp Stamp() const;                 // at this moment
  // Exactly `size` bytes from `offset`; Error(kData) if the file ends before.
  void ReadAt(uint64_t offset, void* out, size_t size) const;

 private:
  std::string path_;
  int descriptor_;
  uint64_t size_;
};

// The whole file. Error(kData) also if it is longer than `max_bytes`, before anything is allocated.
std::string ReadFile(const std::string& path, uint64_t max_bytes = UINT64_MAX);

// Writes a new file front to back, and counts and checksums the bytes. Not buffered: give it large pieces.
class FileWriter {
 public:
  // Creates the file, or empties it. Messages call it `shown_path`: where the file will be, if this is not the place.
  explicit FileWriter(const std::string& path) : FileWriter(path, path) {}
  FileWriter(const std::string& path, std::string shown_path);
  // Closes without synchronising; the file stays as far as it was written.
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void Write(const void* data, size_t size);
  void Write(std::string_view bytes) { Write(bytes.data(), bytes.size()); }
  // fsync, then close. Without it nothing is promised.
  void Finish();

  const std::string& path() const { return shown_path_; }
  uint64_t bytes_written() const { return bytes_written_; }
  uint64_t crc64() const { return crc64_.value(); }  // of the bytes written so far

 private:
  std::string shown_path_;
  int descriptor_;
  uint64_t bytes_written_ = 0;
  Crc64 crc64_;
};

// A new file or directory, empty, beside the path that it is to have when it is finished. It is locked (flock) while
// this lives, by which it is told from one that a killed process has left: those of the same path are removed first.
class TemporaryPlace {
 public:
  enum class Kind { kFile, kDirectory };
  // Messages call it `shown_path`; its own path if that is empty.
  TemporaryPlace(const std::string& path, Kind kind, const std::string& shown_path = "");
  // Removes it, unless it has been moved to its place.
  ~TemporaryPlace();
  TemporaryPlace(const TemporaryPlace&) = delete;
  TemporaryPlace& operator=(const TemporaryPlace&) = delete;

  const std::string& path() const { return path_; }
  void SetMoved() { moved_ = true; }

 private:
  std::string path_;
  int descriptor_ = -1;  // that stays where the file system has no locks
  bool moved_ = false;
};

// A file that appears whole, or replaces an old one in one step: fill writer(), then Commit(). Without Commit the
// destructor removes what was written, and `path` stays as it was. A symbolic link stays, and its target is replaced.
//
class AtomicFile {
 public:
  // Error(kFailure) where `path` is there and not a regular file: a directory, a device, a pipe.
  explicit AtomicFile(const std::string& path);

  FileWriter& writer() { return writer_; }
  // Synchronises the file, renames it to `path` and synchronises the directory.
  void Commit();

 private:
  std::string path_;
  TemporaryPlace temporary_;
  FileWriter writer_;
};

// Replaces `path` as one step: every reader, even after a crash, finds the old content or the new.
void WriteFileAtomically(const std::string& path, std::string_view bytes);

// Makes the names in a directory (created, renamed, removed files) survive a crash.
void SyncDirectory(const std::string& path);

// The kind of file at a path, following symbolic links; a link that leads nowhere is of another kind. An error where
// that cannot be found out: a path that cannot be looked at must not be taken for free.
enum class PathKind { kNothing, kFile, kDirectory, kOther };
PathKind KindOf(const std::string& path);
inline bool Exists(const std::string& path) { return KindOf(path) != PathKind::kNothing; }

// Creates a directory in one that is there. False if something has that name already: of several callers one gets true.
bool CreateDirectory(const std::string& path);
// Creates the directory and its parents if they are missing.
void CreateDirectories(const std::string& path);

// Removes a file or a whole directory; nothing there is no error. Symbolic links are removed, not followed.
void RemoveAll(const std::string& path);

// The names in a directory, sorted, without "." and "..". Error(kData) if there is no directory.
std::vector<std::string> ListDirectory(const std::string& path);

// The treatment of a non-empty directory of the same name.
enum class OldDirectory { kReplaced, kKept };

// Error(kUsage) unless there is nothing at the path, or an empty directory; and the error of making one, where the
// folder that it would be in refuses that.
void CheckNewDirectory(const std::string& path);

// A directory that appears whole: fill temporary_path(), then Commit(). Until then `path` is untouched; without
// Commit the destructor removes what was written.
class DirectoryTransaction {
 public:
  // Creates the parents of `path` if they are missing, and an empty temporary directory beside it.
  DirectoryTransaction(std::string path, OldDirectory old);

  const std::string& path() const { return path_; }
  const std::string& temporary_path() const { return temporary_.path(); }
  // Synchronises the temporary directory, renames it to `path` and synchronises the parent. Files in it must have
  // been finished. A directory that holds something at that moment, from any process, is exchanged for the new
  // one in one step, then removed, or left under a temporary name where that fails; or, where it is to be kept,
  // Error(kUsage) as CheckNewDirectory's.
  void Commit();

 private:
  std::string Exchange();

  std::string path_;
  TemporaryPlace temporary_;
  OldDirectory old_;
  bool committed_ = false;
};

// True for the names that transactions and atomic writes use for what is not finished (".NAME.tmp-…"): after a crash
// such a file or directory is rubbish.
bool IsTemporaryName(std::string_view name);
// Moves a directory (or file) out of sight under a temporary name in one step, then removes it: killed in between, it
// leaves rubbish but never half a directory under its own name.
void RemoveAtomically(const std::string& path);
// Removes everything in `directory` whose name IsTemporaryName and that nobody is writing. Only for a directory whose
// file system has locks, or that no other process writes to.
struct RemovedTemporaries {
  std::vector<std::string> removed;  // names
  std::vector<std::string> failed;   // "PATH: cannot remove: REASON" of those that stay
};
RemovedTemporaries RemoveTemporaries(const std::string& directory);

}  // namespace crosstalk
#pragma GCC visibility pop
