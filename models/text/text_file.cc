#include "crosstalk/models/text/text_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/json_events.h"
#include "crosstalk/runtime/utf8.h"

namespace crosstalk {
namespace {

constexpr int64_t kMarkDistance = 64 << 10;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Takes the string member "text" of an object and skips all else.
class TextField : public JsonEvents {
 public:
  explicit TextField(const std::string& where) : where_(where) {}

  std::string Take() {
    if (!text_) Fail(ErrorKind::kData, where_, ": the object has no \"text\"");
    return *std::move(text_);
  }

  void OnNull(size_t) override { Value(); }
  void OnBool(bool, size_t) override { Value(); }
  void OnUnsigned(uint64_t, size_t) override { Value(); }
  void OnNegative(int64_t, size_t) override { Value(); }
  void OnDouble(double, size_t) override { Value(); }
  void OnString(std::string value, size_t offset) override {
    if (depth_ != 1 || !at_text_) return Value();
    if (text_) Fail(ErrorKind::kData, where_, ": byte ", offset, " of the line: a second \"text\"");
    if (value.find('\0') != std::string::npos) Fail(ErrorKind::kData, where_, ": the \"text\" has a NUL character");
    text_ = std::move(value);
  }
  void OnKey(std::string key, size_t) override { at_text_ = depth_ == 1 && key == "text"; }
  void OnObjectBegin(size_t) override { Open(); }
  void OnObjectEnd(size_t) override { --depth_; }
  void OnArrayBegin(size_t) override {
    if (depth_ == 0) Fail(ErrorKind::kData, where_, ": the line is an array, not an object with a string \"text\"");
    Open();
  }
  void OnArrayEnd(size_t) override { --depth_; }

 private:
  void Value() const {
    if (depth_ == 0) Fail(ErrorKind::kData, where_, ": the line is not an object with a string \"text\"");
    if (depth_ == 1 && at_text_) Fail(ErrorKind::kData, where_, ": \"text\" is not a string");
  }
  void Open() {
    if (depth_ > 0) Value();
    ++depth_;
  }

  const std::string& where_;
  int depth_ = 0;
  bool at_text_ = false;
  std::optional<std::string> text_;
};

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: the path of a pipe must not make it wait for a writer.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) Fail(ErrorKind::kData, path, ": cannot be opened: ", std::strerror(errno));
  struct stat status;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(file);
    Fail(ErrorKind::kData, path, ": is not a regular file");
  }
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) {
    close(file);
    Fail(ErrorKind::kData, path, ": the file is empty");
  }
  void* data = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  close(file);
  if (data == MAP_FAILED) Fail(ErrorKind::kData, path, ": cannot be mapped: ", std::strerror(error));
  data_ = static_cast<const char*>(data);
}

MappedFile::~MappedFile() { munmap(const_cast<char*>(data_), size_); }

TextFormat FormatOf(const std::string& path) {
  return EndsWith(path, ".jsonl") || EndsWith(path, ".json") ? TextFormat::kJsonl : TextFormat::kPlain;
}

void CheckText(const MappedFile& file) {
  const std::string_view bytes = file.bytes();
  const size_t invalid = FindInvalidUtf8(bytes);
  // Of a NUL byte and bad UTF-8, the first tells better what the file is.
  const size_t nul = bytes.substr(0, invalid).find('\0');
  if (nul != std::string_view::npos) {
    Fail(ErrorKind::kData, file.path(), ": byte ", nul, " is NUL: a binary file, not text");
  }
  if (invalid != std::string_view::npos) {
    Fail(ErrorKind::kData, file.path(), ": byte ", invalid,
         " is not valid UTF-8: convert the file (iconv -t UTF-8), or leave it out");
  }
}

TextSection::TextSection(std::shared_ptr<const MappedFile> file, size_t begin, size_t end)
    : file_(std::move(file)), format_(FormatOf(file_->path())), begin_(begin), end_(end) {
  if (begin_ == 0 && file_->bytes().substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    begin_ = std::min(kByteOrderMark.size(), end_);
  }
  if (format_ == TextFormat::kPlain) {
    if (begin_ < end_) size_ = static_cast<int64_t>(end_ - begin_ + kDocumentEnd.size());
    return;
  }
  std::string text;
  for (size_t at = begin_; at < end_;) {
    const size_t line = at;
    if (!NextDocument(&at, &text) || text.empty()) continue;
    if (marks_.empty() || size_ - marks_.back().text_position >= kMarkDistance) marks_.push_back({line, size_});
    size_ += static_cast<int64_t>(text.size() + kDocumentEnd.size());
  }
}

bool TextSection::NextDocument(size_t* at, std::string* text) const {
  const size_t begin = *at;
  const size_t end = std::min(file_->bytes().find('\n', begin), end_);
  *at = std::min(end + 1, end_);
  const std::string_view line = file_->bytes().substr(begin, end - begin);
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return false;
  std::string where = StrCat(file_->path(), ": the line at byte ", begin);
  try {
    TextField field(where);
    ParseJsonEvents(line, where, field);
    *text = field.Take();
  } catch (const Error& error) {
    // Lines are counted only for an error.
    const std::string_view before = file_->bytes().substr(0, begin);
    const auto number = 1 + std::count(before.begin(), before.end(), '\n');
    Fail(error.kind(), file_->path(), ": line ", number, " at byte ", begin,
         std::string_view(error.what()).substr(where.size()));
  }
  return true;
}

void TextSection::Read(int64_t position, int64_t count, std::string* out) const {
  count = std::min(count, size_ - position);
  if (count <= 0) return;
  const auto append = [&](std::string_view document, int64_t from) {  // document and its end, from byte `from` on
    const std::string_view parts[] = {document, kDocumentEnd};
    for (const std::string_view part : parts) {
      const auto part_size = static_cast<int64_t>(part.size());
      if (from < part_size) {
        const int64_t taken = std::min(count, part_size - from);
        out->append(part.substr(from, taken));
        count -= taken;
        from = 0;
      } else {
        from -= part_size;
      }
    }
  };
  if (format_ == TextFormat::kPlain) {
    append(file_->bytes().substr(begin_, end_ - begin_), position);
    return;
  }
  const auto behind = std::upper_bound(marks_.begin(), marks_.end(), position,
                                       [](int64_t at, const Mark& mark) { return at < mark.text_position; });
  size_t at = std::prev(behind)->file_offset;
  int64_t from = position - std::prev(behind)->text_position;
  std::string text;
  while (count > 0 && at < end_) {
    if (!NextDocument(&at, &text) || text.empty()) continue;
    const auto document_size = static_cast<int64_t>(text.size() + kDocumentEnd.size());
    if (from < document_size) {
      append(text, from);
      from = 0;
    } else {
      from -= document_size;
    }
  }
}

}  // namespace crosstalk
