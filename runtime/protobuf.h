// Protocol buffers as bytes: messages that are read field by field, and fields written. A field is a key (number << 3 |
// wire type), then the value.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string Varint(uint64_t value);
std::string LittleEndian(uint64_t value, int bytes);
std::string IntField(uint64_t number, uint64_t value);
std::string DoubleField(uint64_t number, double value);
std::string FloatField(uint64_t number, float value);
std::string Fixed32Field(uint64_t number, uint32_t value);
std::string BytesField(uint64_t number, std::string_view bytes);

// Takes a varint of at most 64 bits off the front of `rest`; nothing if it is cut off or longer.
std::optional<uint64_t> TakeVarint(std::string_view* rest);
// The caller has checked that the bytes exist.
uint64_t ReadLittleEndian(std::string_view bytes);

// Reads the fields of one message. Groups (wire types 3 and 4), which are obsolete, are refused.
class WireReader {
 public:
  // Errors begin with `subject`, which must outlive this, and count bytes from `offset`.
  WireReader(std::string_view bytes, size_t offset, const std::string& subject)
      : bytes_(bytes), offset_(offset), subject_(subject) {}

  bool Next() {
    if (at_ == bytes_.size()) return false;
    field_begin_ = at_;
    const uint64_t tag = TakeVarintHere();
    field_ = tag >> 3;
    type_ = static_cast<int>(tag & 7);
    if (field_ == 0 || field_ > 536870911) FailHere("a field number that is not allowed");
    switch (type_) {
      case kVarint:
        varint_ = TakeVarintHere();
        break;
      case kFixed64:
        Take(8);
        break;
      case kFixed32:
        Take(4);
        break;
      case kBytes: {
        const uint64_t length = TakeVarintHere();
        if (length > bytes_.size() - at_) FailHere("a field that is longer than what is left");
        Take(length);
        break;
      }
      default:
        FailHere("a field of unknown type");
    }
    return true;
  }

  uint64_t field() const { return field_; }
  // The bytes of the whole field.
  std::string_view raw() const { return bytes_.substr(field_begin_, at_ - field_begin_); }
  // The value, by the type it must have.
  uint64_t AsVarint() const { return Expect(kVarint), varint_; }
  uint32_t AsFixed32() const { return Expect(kFixed32), static_cast<uint32_t>(ReadLittleEndian(value_)); }
  float AsFloat() const { return std::bit_cast<float>(AsFixed32()); }
  std::string_view AsBytes() const { return Expect(kBytes), value_; }
  WireReader AsMessage() const { return WireReader(AsBytes(), offset_ + (at_ - value_.size()), subject_); }
  std::string_view AsText(size_t max_bytes) const {
    const std::string_view text = AsBytes();
    if (text.size() > max_bytes) FailHere("a text of ", text.size(), " bytes, more than the ", max_bytes, " allowed");
    if (FindInvalidUtf8(text) != std::string_view::npos) FailHere("a text that is not valid UTF-8");
    if (text.find('\0') != std::string_view::npos) FailHere("a text with a NUL byte");
    return text;
  }

  template <typename... Parts>
  [[noreturn]] void FailHere(const Parts&... parts) const {
    Fail(ErrorKind::kData, subject_, ": byte ", offset_ + field_begin_, " begins ", parts...);
  }

 private:
  void Expect(int type) const {
    if (type_ != type) FailHere("a field of the wrong type");
  }
  uint64_t TakeVarintHere() {
    std::string_view rest = bytes_.substr(at_);
    const size_t before = rest.size();
    const std::optional<uint64_t> value = TakeVarint(&rest);
    if (!value) FailHere(rest.empty() ? "a number that is cut off" : "a number that is too long");
    at_ += before - rest.size();
    return *value;
  }
  void Take(size_t count) {
    if (count > bytes_.size() - at_) FailHere("a field that is cut off");
    value_ = bytes_.substr(at_, count);
    at_ += count;
  }

  std::string_view bytes_;
  size_t offset_;  // of bytes_ in the file
  const std::string& subject_;
  size_t at_ = 0;
  size_t field_begin_ = 0;
  uint64_t field_ = 0;
  int type_ = 0;
  uint64_t varint_ = 0;
  std::string_view value_;
};

}  // namespace crosstalk
