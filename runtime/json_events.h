// From JSON text to values: a strict parser with byte offsets in its errors. The parser inside is nlohmann's; only
// this file uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace crosstalk {

// Receives the parts of a JSON text in order, for readers of untrusted files that want to bound what they keep. The
// offset is the number of bytes read so far, just after the part. Throw to stop.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void OnNull(size_t offset) = 0;
  virtual void OnBool(bool value, size_t offset) = 0;
  virtual void OnUnsigned(uint64_t value, size_t offset) = 0;        // an integer written without a minus sign
  virtual void OnNegative(int64_t value, size_t offset) = 0;         // with one ("-0" too)
  virtual void OnBigInteger(std::string digits, size_t offset) = 0;  // fits neither; with its sign
  virtual void OnDouble(double value, size_t offset) = 0;
  virtual void OnString(std::string value, size_t offset) = 0;
  virtual void OnKey(std::string key, size_t offset) = 0;
  virtual void OnObjectBegin(size_t offset) = 0;
  virtual void OnObjectEnd(size_t offset) = 0;
  virtual void OnArrayBegin(size_t offset) = 0;
  virtual void OnArrayEnd(size_t offset) = 0;
};
// The rules of ParseJson, except that duplicate keys are the receiver's business.
void ParseJsonEvents(std::string_view text, const std::string& source, JsonEvents& events);

// Throws Error(kData), "SOURCE: byte 17: REASON".
[[noreturn]] void FailAtByte(const std::string& source, size_t offset, const std::string& reason);

}  // namespace crosstalk
