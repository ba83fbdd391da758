// TextSection: a part of a file as a sequence of documents, entered anywhere. A corpus of files is made from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/text/text_file.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {

// JSONL: an object a line, one string of which is a document, by the name that its file has it under. A line is parsed
// as a whole once, which checks it and says where its text stands; from there the text can be decoded in parts.

struct JsonlDocument {
  std::string text;
  size_t begin;  // of the text in the file, as it is written there: after the quotation mark
};

// False if the line, which is at byte `begin` of the file, is blank. Error(kData) with file, line and byte if it is not
// an object with such a string; it lists the strings that the object has.
bool ParseJsonlLine(const TextFile& file, size_t begin, std::string_view line, JsonlDocument* document);

// Decodes what stands between the quotation marks of a JSON string that has been checked.
class JsonStringDecoder {
 public:
  // `offset` is in the file, at a byte of the string that is not within an escape.
  JsonStringDecoder(FileWindow& window, size_t offset) : window_(window), offset_(offset) {}

  // Appends text until there are `count` bytes more, or up to three above that, or the string ends.
  void Read(size_t count, std::string* text);
  bool AtEnd();                              // the quotation mark is next
  size_t offset() const { return offset_; }  // of the byte that is next

 private:
  FileWindow& window_;
  size_t offset_;
};

// Bytes [begin, end) of a file as text: of plain text themselves, of JSONL the text fields of the lines. Each
// document is followed by kDocumentEnd. A byte-order mark at the beginning of the file is left out.
class TextSection {
 public:
  static constexpr std::string_view kDocumentEnd = "\n\n";

  // begin and end must be at characters, in JSONL at line ends. Error(kData) as of ParseJsonlLine.
  TextSection(std::shared_ptr<const TextFile> file, size_t begin, size_t end, const StopRequest& stop);

  const TextFile& file() const { return *file_; }
  size_t begin() const { return begin_; }
  int64_t size() const { return size_; }  // bytes of text, 0 if there is none
  // Appends bytes [position, position + count) of the text, fewer at its end. It reads no more of the file than
  // the count and the distance of two marks, however long the documents and lines are. Where a document's kDocumentEnd
  // is among them, where that ends in *out is appended to *document_ends.
  void Read(int64_t position, int64_t count, std::string* out, std::vector<int64_t>* document_ends = nullptr) const;

 private:
  // Where in the file the text at a position is written. There is one where a document begins that is far from the
  // mark before it or in a long line, and at distances within a long document.
  struct Mark {
    size_t file_offset;
    int64_t text_position;
  };
  void Index(const StopRequest& stop);
  void ReadJsonl(int64_t position, int64_t count, std::string* out, std::vector<int64_t>* document_ends) const;

  std::shared_ptr<const TextFile> file_;
  size_t begin_;
  size_t end_;
  int64_t size_ = 0;
  std::vector<Mark> marks_;  // JSONL only; in order
};

}  // namespace crosstalk
