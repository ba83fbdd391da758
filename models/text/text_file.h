// TextFile: a file of text that has been checked, read in pieces; one packed by gzip is unpacked once, into a file
// without a name. It is never mapped: a mapped file that another program cuts ends the process that reads it, and a
// folder can hold more files than a process may map or open.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/packed.h"

namespace crosstalk {

// What a file is that is given as text and is none: told by its first bytes, and by its name.

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // which a text of UTF-8 may begin with

enum class TextFormat { kPlain, kJsonl };

// Error(kData) that says what the file is and what to do with it, where its first bytes, or the end of its name, are of
// a kind that is no text: columns (Parquet, Arrow), what is packed otherwise than by gzip, PDF, UTF-16.
void RefuseIfNoText(const std::string& path, std::string_view head);

// The same of rows, in which only the user knows what the text is: CSV and TSV, by name or where all rows of `head`
// have the columns of a first line of names; a JSON list; JSON lines in a file whose name is another's. `head` is the
// beginning of a text that is to be read in that format, `text_field` what JSON lines have their text in.
void RefuseIfRows(const std::string& path, std::string_view head, TextFormat format, const std::string& text_field);

// The whole of a file, unpacked if it is gzip, refused if it is no text. Error(kData) also if it is longer
// than `max_bytes`.
std::string ReadText(const std::string& path, uint64_t max_bytes);

// Bytes in a file without a name below $TMPDIR, or /tmp, which is gone when this is.
class UnnamedFile {
 public:
  UnnamedFile() = default;
  ~UnnamedFile();
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;

  uint64_t size() const { return size_; }
  // Error(kResource) if there is no room.
  void Append(std::string_view bytes);
  void ReadAt(uint64_t offset, void* out, size_t size) const;

 private:
  std::string folder_;
  int descriptor_ = -1;  // that is made with the first bytes
  uint64_t size_ = 0;
};

// What the files of a corpus share. Files are open for reading, a few at a time: for one more, the one that was asked
// for longest ago is closed; and packed ones are unpacked into one place. Thread-safe.
class OpenFiles {
 public:
  // Error(kData) as of FileReader.
  std::shared_ptr<const FileReader> Open(const std::string& path);
  // Reads the text of a file packed by gzip to its end, and gives the place where it begins.
  struct Unpacked {
    uint64_t begin, size;
  };
  Unpacked Unpack(PackedReader& packed, const StopRequest& stop);
  void ReadUnpacked(uint64_t offset, void* out, size_t size) const { unpacked_.ReadAt(offset, out, size); }

 private:
  std::mutex mutex_;
  std::deque<std::shared_ptr<const FileReader>> files_;  // the one asked for last is in front
  UnnamedFile unpacked_;
};

// A regular file of UTF-8 text without NUL bytes. Thread-safe once made.
class TextFile {
 public:
  // Reads and checks the whole of it. Error(kData) with the path if it is missing, unreadable, not a file, empty, not
  // text, with the byte, or what kind of file is refused.
  TextFile(std::string path, std::shared_ptr<OpenFiles> open_files, std::string text_field, const StopRequest& stop);

  const std::string& path() const { return path_; }
  const std::string& text_field() const { return text_field_; }  // of each line of JSONL
  size_t size() const { return size_; }                          // of the text, like all below
  TextFormat format() const { return format_; }    // by the end of the name: .jsonl and .json are JSONL, .gz apart
  uint64_t checksum() const { return checksum_; }  // CRC-64 of the bytes

  // The bytes [offset, offset + count), fewer at the end. Error(kData) if the file has no longer the bytes that were
  // checked. A time or place of the file that has changed makes it read the whole of it again, to tell. Of a packed
  // file, what was unpacked is read, whatever has become of the file.
  std::string Read(size_t offset, size_t count) const;

  // As the functions of std::string_view on the whole of it, in pieces.
  size_t Find(std::string_view text, size_t from) const;
  size_t FindFirstNotOf(std::string_view characters, size_t from) const;
  size_t FindLastOf(std::string_view characters, size_t last) const;
  size_t FindLastNotOf(std::string_view characters, size_t last) const;
  // Line ends in [0, end).
  size_t CountLines(size_t end) const;

 private:
  void Check(const StopRequest& stop);
  void CheckUnchanged(const FileReader& file) const;
  template <typename FindIn>
  size_t FindBackward(size_t last, const FindIn& find_in) const;

  std::string path_;
  std::shared_ptr<OpenFiles> open_files_;
  std::string text_field_;
  TextFormat format_;
  size_t size_ = 0;
  uint64_t checksum_ = 0;
  std::optional<uint64_t> unpacked_at_;  // of a packed file: where open_files_ has its text
  mutable std::mutex mutex_;
  mutable FileStamp stamp_;  // when the bytes were last known to be those
};

// Where a reader stands in a file: keeps the piece around it.
class FileWindow {
 public:
  // Reads `piece` bytes at a time, or more where more is asked for.
  FileWindow(const TextFile& file, size_t piece) : file_(file), piece_(piece) {}

  // Bytes from `offset` on, at least `count` of them except at the end of the file. Valid until the next call.
  std::string_view From(size_t offset, size_t count);
  // The line that `offset` is in, from there to its end, without the '\n'. Error(kData) if it has more than kMaxLine
  // bytes.
  std::string_view LineFrom(size_t offset);

 private:
  static constexpr size_t kMaxLine = size_t{1} << 30;

  const TextFile& file_;
  size_t piece_;
  size_t begin_ = 0;
  std::string bytes_;
};

}  // namespace crosstalk
