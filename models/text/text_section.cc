#include "crosstalk/models/text/text_section.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// Takes a string member of an object and skips all else.
class TextField : public JsonEvents {
 public:
  TextField(const std::string& name, std::string_view line, const std::string& where)
      : name_(name), line_(line), where_(where) {}

  bool found() const { return text_.has_value(); }
  // The text, and where it begins in the line.
  std::pair<std::string, size_t> Take() {
    // Between a key and the quotation mark of its value are a colon and spaces.
    return {*std::move(text_), line_.find('"', key_end_) + 1};
  }
  // The first of the object's names, and the first that has a string; empty: none.
  const std::vector<std::string>& names() const { return names_; }
  const std::string& other_string() const { return other_string_; }

  void OnNull(size_t) override { Value(); }
  void OnBool(bool, size_t) override { Value(); }
  void OnUnsigned(uint64_t, size_t) override { Value(); }
  void OnNegative(int64_t, size_t) override { Value(); }
  void OnDouble(double, size_t) override { Value(); }
  void OnBigInteger(std::string, size_t) override { Value(); }
  void OnString(std::string value, size_t offset) override {
    if (depth_ == 1 && !at_text_ && is_listed_ && other_string_.empty()) other_string_ = names_.back();
    if (depth_ != 1 || !at_text_) return Value();
    if (text_) Fail(ErrorKind::kData, where_, ": byte ", offset, " of the line: a second ", Quoted(name_));
    if (value.find('\0') != std::string::npos) {
      Fail(ErrorKind::kData, where_, ": the ", Quoted(name_), " has a NUL character");
    }
    text_ = std::move(value);
  }
  void OnKey(std::string key, size_t offset) override {
    at_text_ = depth_ == 1 && key == name_;
    if (at_text_) key_end_ = offset;
    if (depth_ != 1) return;
    is_listed_ = names_.size() < kMostNames;
    if (is_listed_) names_.push_back(std::move(key));
  }
  void OnObjectBegin(size_t) override { Open(); }
  void OnObjectEnd(size_t) override { --depth_; }
  void OnArrayBegin(size_t) override {
    if (depth_ == 0)
      Fail(ErrorKind::kData, where_, ": the line is an array, not an object with a string ", Quoted(name_));
    Open();
  }
  void OnArrayEnd(size_t) override { --depth_; }

 private:
  void Value() const {
    if (depth_ == 0) Fail(ErrorKind::kData, where_, ": the line is not an object with a string ", Quoted(name_));
    if (depth_ == 1 && at_text_) Fail(ErrorKind::kData, where_, ": ", Quoted(name_), " is not a string");
  }
  void Open() {
    if (depth_ > 0) Value();
    ++depth_;
  }

  static constexpr size_t kMostNames = 8;

  const std::string& name_;
  std::string_view line_;
  const std::string& where_;
  int depth_ = 0;
  bool at_text_ = false;
  size_t key_end_ = 0;
  std::optional<std::string> text_;
  std::vector<std::string> names_;
  bool is_listed_ = false;  // whether the last of its names is in names_
  std::string other_string_;
};

uint32_t FromHex(std::string_view digits) {
  uint32_t value = 0;
  for (const char c : digits) value = value * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
  return value;
}

void AppendUtf8(uint32_t code, std::string* text) {
  const auto tail = [&](int shift) { *text += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    *text += static_cast<char>(code);
  } else if (code < 0x800) {
    *text += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    *text += static_cast<char>(0xE0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    *text += static_cast<char>(0xF0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

// Decodes `raw`, which begins with a backslash. Returns the bytes that the escape has: 2, 6, or 12 of a surrogate pair.
size_t DecodeEscape(std::string_view raw, std::string* text) {
  if (raw[1] != 'u') {
    constexpr std::string_view kNames = "bfnrt", kCharacters = "\b\f\n\r\t";
    const size_t named = kNames.find(raw[1]);
    *text += named == std::string_view::npos ? raw[1] : kCharacters[named];
    return 2;
  }
  const uint32_t code = FromHex(raw.substr(2, 4));
  if (code < 0xD800 || code > 0xDBFF) {
    AppendUtf8(code, text);
    return 6;
  }
  AppendUtf8(0x10000 + ((code & 0x3FF) << 10) + (FromHex(raw.substr(8, 4)) & 0x3FF), text);
  return 12;
}

}  // namespace

bool ParseJsonlLine(const TextFile& file, size_t begin, std::string_view line, JsonlDocument* document) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return false;
  const std::string where = StrCat(file.path(), ": the line at byte ", begin);
  // Lines are counted only for an error.
  const auto place = [&] { return StrCat(file.path(), ": line ", 1 + file.CountLines(begin), " at byte ", begin); };
  TextField field(file.text_field(), line, where);
  try {
    ParseJsonEvents(line, where, field);
  } catch (const Error& error) {
    Fail(error.kind(), place(), std::string_view(error.what()).substr(where.size()));
  }
  if (!field.found()) {
    std::vector<std::string> quoted;
    for (const std::string& name : field.names()) quoted.push_back(Quoted(name));
    const std::string missing =
        StrCat(": the object has no ", Quoted(file.text_field()), quoted.empty() ? "" : ", but ", Join(quoted, ", "));
    if (field.other_string().empty()) Fail(ErrorKind::kData, place(), missing);
    Fail(ErrorKind::kData, place(), missing, "; ", FieldName{"text_field", field.other_string()},
         " would read its first string");
  }
  std::tie(document->text, document->begin) = field.Take();
  document->begin += begin;
  return true;
}

void JsonStringDecoder::Read(size_t count, std::string* text) {
  constexpr size_t kLongestEscape = 12;
  for (const size_t enough = text->size() + count; text->size() < enough && !AtEnd();) {
    const std::string_view raw = window_.From(offset_, kLongestEscape);
    if (raw[0] == '\\') {
      offset_ += DecodeEscape(raw, text);
      continue;
    }
    const size_t plain = std::min({raw.find_first_of("\\\""), raw.size(), enough - text->size()});
    text->append(raw.substr(0, plain));
    offset_ += plain;
  }
}

bool JsonStringDecoder::AtEnd() {
  const std::string_view raw = window_.From(offset_, 1);
  return raw.empty() || raw[0] == '"';
}

namespace {

constexpr size_t kMarkDistance = 64 << 10;  // bytes of the file
constexpr size_t kIndexPiece = 1 << 20;

}  // namespace

TextSection::TextSection(std::shared_ptr<const TextFile> file, size_t begin, size_t end, const StopRequest& stop)
    : file_(std::move(file)), begin_(begin), end_(end) {
  if (begin_ == 0 && file_->Read(0, kByteOrderMark.size()) == kByteOrderMark) {
    begin_ = std::min(kByteOrderMark.size(), end_);
  }
  if (file_->format() == TextFormat::kJsonl) {
    Index(stop);
  } else if (begin_ < end_) {
    size_ = static_cast<int64_t>(end_ - begin_ + kDocumentEnd.size());
  }
}

void TextSection::Index(const StopRequest& stop) {
  FileWindow window(*file_, kIndexPiece);
  JsonlDocument document;
  for (size_t at = begin_; at < end_;) {
    ThrowIfStopped(stop);
    const size_t line_begin = at;
    const std::string_view line = window.LineFrom(at);
    const size_t line_size = line.size();
    at += line_size + 1;
    if (!ParseJsonlLine(*file_, line_begin, line, &document) || document.text.empty()) continue;
    if (marks_.empty() || line_size > kMarkDistance || document.begin - marks_.back().file_offset > kMarkDistance) {
      marks_.push_back({document.begin, size_});
    }
    JsonStringDecoder decoder(window, document.begin);
    std::string part;
    for (int64_t position = size_; document.text.size() > kMarkDistance;) {
      part.clear();
      decoder.Read(kMarkDistance, &part);
      if (decoder.AtEnd()) {
        CROSSTALK_DCHECK(position + static_cast<int64_t>(part.size()) - size_ ==
                         static_cast<int64_t>(document.text.size()));
        break;
      }
      position += static_cast<int64_t>(part.size());
      marks_.push_back({decoder.offset(), position});
    }
    size_ += static_cast<int64_t>(document.text.size() + kDocumentEnd.size());
  }
}

void TextSection::Read(int64_t position, int64_t count, std::string* out, std::vector<int64_t>* document_ends) const {
  count = std::min(count, size_ - position);
  if (count <= 0) return;
  if (file_->format() == TextFormat::kJsonl) return ReadJsonl(position, count, out, document_ends);
  const auto length = static_cast<int64_t>(end_ - begin_);
  const int64_t from_file = std::min(count, std::max<int64_t>(0, length - position));
  if (from_file > 0) *out += file_->Read(begin_ + static_cast<size_t>(position), static_cast<size_t>(from_file));
  if (count > from_file) *out += kDocumentEnd.substr(std::max<int64_t>(0, position - length), count - from_file);
  if (document_ends != nullptr && position + count == size_) document_ends->push_back(std::ssize(*out));
}

void TextSection::ReadJsonl(int64_t position, int64_t count, std::string* out,
                            std::vector<int64_t>* document_ends) const {
  FileWindow window(*file_, kMarkDistance);
  JsonlDocument document;
  auto mark = std::prev(std::upper_bound(marks_.begin(), marks_.end(), position,
                                         [](int64_t at, const Mark& m) { return at < m.text_position; }));
  int64_t at = mark->text_position;  // of what is in document.text: the rest of a document from a mark on, or a whole
  size_t offset = 0;                 // in its line
  while (true) {
    document.text.clear();
    bool whole = true;
    if (mark != marks_.end() && mark->text_position == at) {
      JsonStringDecoder decoder(window, mark->file_offset);
      decoder.Read(static_cast<size_t>(position + count - at), &document.text);
      whole = decoder.AtEnd();
      offset = decoder.offset();
    } else {
      while (document.text.empty()) {
        offset += window.LineFrom(offset).size() + 1;
        ParseJsonlLine(*file_, offset, window.LineFrom(offset), &document);
      }
    }
    if (whole) document.text += kDocumentEnd;
    const int64_t end = at + static_cast<int64_t>(document.text.size());
    if (end > position) {
      const std::string_view part = std::string_view(document.text).substr(position - at, count);
      *out += part;
      position += static_cast<int64_t>(part.size());
      count -= static_cast<int64_t>(part.size());
      if (document_ends != nullptr && whole && position == end) document_ends->push_back(std::ssize(*out));
      if (count == 0) return;
    }
    at = end;
    while (mark != marks_.end() && mark->text_position < at) ++mark;
  }
}

}  // namespace crosstalk
