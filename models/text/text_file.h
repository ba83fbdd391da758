// Files of text: mapped (MappedFile), checked, and read as a sequence of documents (TextSection). A corpus of files is
// made from them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace crosstalk {

// A regular file mapped for reading. Error(kData) with the path if it is missing, unreadable, not a file or empty.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::string_view bytes() const { return {data_, size_}; }

 private:
  std::string path_;
  const char* data_ = nullptr;
  size_t size_ = 0;
};

enum class TextFormat { kPlain, kJsonl };
// By the end of the name: .jsonl and .json are JSONL.
TextFormat FormatOf(const std::string& path);

// Error(kData) naming file and byte on a NUL byte or invalid UTF-8.
void CheckText(const MappedFile& file);

// Bytes [begin, end) of a file as text: of plain text themselves, of JSONL the `text` fields of the lines. Each
// document is followed by kDocumentEnd.
class TextSection {
 public:
  static constexpr std::string_view kDocumentEnd = "\n\n";

  // begin and end must be at character, in JSONL at line ends. Error(kData) naming file, line and byte on a line of
  // JSONL that is not an object with a string `text`.
  TextSection(std::shared_ptr<const MappedFile> file, size_t begin, size_t end);

  const MappedFile& file() const { return *file_; }
  int64_t size() const { return size_; }  // bytes of text, 0 if there is none
  // Appends bytes [position, position + count) of the text, fewer at its end.
  void Read(int64_t position, int64_t count, std::string* out) const;

 private:
  struct Mark {
    size_t file_offset;     // where a line begins
    int64_t text_position;  // where its text does
  };
  // The `text` of the line at file offset *at (which moves behind it); false if the line is blank.
  bool NextDocument(size_t* at, std::string* text) const;

  std::shared_ptr<const MappedFile> file_;
  TextFormat format_;
  size_t begin_;
  size_t end_;
  int64_t size_ = 0;
  std::vector<Mark> marks_;  // JSONL only
};

}  // namespace crosstalk
