#include "crosstalk/models/text/jsonl.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {
namespace {

// Takes the string member "text" of an object and skips all else.
class TextField : public JsonEvents {
 public:
  TextField(std::string_view line, const std::string& where) : line_(line), where_(where) {}

  // The text, and where it begins in the line.
  std::pair<std::string, size_t> Take() {
    if (!text_) Fail(ErrorKind::kData, where_, ": the object has no \"text\"");
    // Between a key and the quotation mark of its value are a colon and spaces.
    return {*std::move(text_), line_.find('"', key_end_) + 1};
  }

  void OnNull(size_t) override { Value(); }
  void OnBool(bool, size_t) override { Value(); }
  void OnUnsigned(uint64_t, size_t) override { Value(); }
  void OnNegative(int64_t, size_t) override { Value(); }
  void OnDouble(double, size_t) override { Value(); }
  void OnBigInteger(std::string, size_t) override { Value(); }
  void OnString(std::string value, size_t offset) override {
    if (depth_ != 1 || !at_text_) return Value();
    if (text_) Fail(ErrorKind::kData, where_, ": byte ", offset, " of the line: a second \"text\"");
    if (value.find('\0') != std::string::npos) Fail(ErrorKind::kData, where_, ": the \"text\" has a NUL character");
    text_ = std::move(value);
  }
  void OnKey(std::string key, size_t offset) override {
    at_text_ = depth_ == 1 && key == "text";
    if (at_text_) key_end_ = offset;
  }
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

  std::string_view line_;
  const std::string& where_;
  int depth_ = 0;
  bool at_text_ = false;
  size_t key_end_ = 0;
  std::optional<std::string> text_;
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

// Of `raw`, which begins with a backslash. Returns the bytes that the escape has: 2, 6, or 12 of a surrogate pair.
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
  try {
    TextField field(line, where);
    ParseJsonEvents(line, where, field);
    std::tie(document->text, document->begin) = field.Take();
    document->begin += begin;
  } catch (const Error& error) {
    // Lines are counted only for an error.
    Fail(error.kind(), file.path(), ": line ", 1 + file.CountLines(begin), " at byte ", begin,
         std::string_view(error.what()).substr(where.size()));
  }
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

}  // namespace crosstalk
