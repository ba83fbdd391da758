// JSONL: an object a line, whose string "text" is a document. A line is parsed as a whole once, which checks it and
// says where its text stands; from there the text can be decoded in parts.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "crosstalk/models/text/text_file.h"

namespace crosstalk {

struct JsonlDocument {
  std::string text;
  size_t begin;  // of the text in the file, as it is written there: after the quotation mark
};

// False if the line, which is at byte `begin` of the file, is blank. Error(kData) with file, line and byte if it is not
// an object with a string "text".
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

}  // namespace crosstalk
