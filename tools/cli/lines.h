// Lines of a file or of standard input, a piece at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/packed.h"

namespace crosstalk {

// Each with its place for messages.
class LineReader {
 public:
  // - is standard input; a file may be packed by gzip. Error(kData) for what cannot be read, or is no text.
  explicit LineReader(const std::string& path);

  // The next one, without its end; false after the last. Error(kData) for one of more than 64 MB.
  bool Next(std::string* line);

  const std::string& name() const { return name_; }
  int64_t number() const { return number_; }  // of the line that came last, from 1
  template <typename... Parts>
  [[noreturn]] void Refuse(const Parts&... parts) const {
    Fail(ErrorKind::kData, name_, ": line ", number_, " ", parts...);
  }

 private:
  bool Get(char* c);
  void FillPiece();

  std::string name_;
  std::istream* stream_ = &std::cin;  // null: a file, packed or not
  std::ifstream pipe_;
  std::optional<FileReader> file_;
  std::optional<PackedReader> reader_;
  std::string piece_;
  size_t at_ = 0;
  int64_t number_ = 0;
};

}  // namespace crosstalk
