// Json: a small value type with deterministic text, strict parsing into it (by runtime/json.h), and JsonReader,
// which reads a configuration with the key's path in every error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/visibility.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// A JSON value. Objects keep their members in the order of insertion, and that is the order of Dump. An integer is
// not a double: 3 parses as an integer, 3.0 as a double, and both are written as they were.
class Json {
 public:
  enum class Type { kNull, kBool, kInt, kDouble, kBigInteger, kString, kArray, kObject };
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;
  // An integer that does not fit an int64_t, as it was written: files have such numbers under keys that nobody reads.
  struct BigInteger {
    std::string digits;
    friend bool operator==(const BigInteger&, const BigInteger&) = default;
  };

  Json() = default;  // null
  Json(const Json& other);
  Json(Json&& other) noexcept = default;
  Json& operator=(const Json& other) { return *this = Json(other); }
  Json& operator=(Json&& other) noexcept = default;
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  // Any integer type; throws a usage error where the value does not fit an int64_t.
  template <typename T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  Json(T value) : value_(static_cast<int64_t>(value)) {
    if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8) {
      CROSSTALK_CHECK(value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()), "JSON: the integer ", value,
                      " does not fit 64 bits with a sign");
    }
  }
  Json(double value) : value_(value) {}
  Json(BigInteger value) : value_(std::move(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}
  // Json::MakeObject({{"step", 3}, {"loss", 2.5}}).Dump() == R"({"step": 3, "loss": 2.5})"
  static Json MakeObject(Object members = {}) { return Json(std::move(members)); }
  static Json MakeArray(Array elements = {}) { return Json(std::move(elements)); }

  Type type() const { return static_cast<Type>(value_.index()); }
  bool is_null() const { return type() == Type::kNull; }
  bool is_bool() const { return type() == Type::kBool; }
  bool is_int() const { return type() == Type::kInt; }
  bool is_double() const { return type() == Type::kDouble; }
  bool is_big_integer() const { return type() == Type::kBigInteger; }
  bool is_number() const { return is_int() || is_double() || is_big_integer(); }
  bool is_string() const { return type() == Type::kString; }
  bool is_array() const { return type() == Type::kArray; }
  bool is_object() const { return type() == Type::kObject; }

  // The value as that type; Error(kData) if it is another. AsDouble takes integers too.
  bool AsBool() const;
  int64_t AsInt() const;
  double AsDouble() const;
  const BigInteger& AsBigInteger() const;
  const std::string& AsString() const;
  const Array& AsArray() const;
  const Object& AsObject() const;

  // Objects. Find is null if there is no such key; At is Error(kData) naming it. Set replaces the value where it
  // stands or appends; it returns *this. Both take a null value for an empty object.
  const Json* Find(std::string_view key) const;
  const Json& At(std::string_view key) const;
  Json& Set(std::string_view key, Json value);
  // Arrays (a null becomes an empty array first); returns *this.
  Json& Append(Json element);

  // One line, ", " and ": " between; the same value gives the same bytes on every machine. A double is written with
  // the fewest digits that read back to the same bits and never looks like an integer; NaN and infinities, for which
  // JSON has no form, become null; bytes of a string that are not UTF-8 become U+FFFD.
  std::string Dump() const;
  // The same over several lines, indented by two spaces, with a final line end: for files that people read.
  std::string DumpPretty() const;

  bool operator==(const Json& other) const { return value_ == other.value_; }
  bool operator!=(const Json& other) const { return !(*this == other); }

 private:
  // In the order of Type.
  std::variant<std::monostate, bool, int64_t, double, BigInteger, std::string, Array, Object> value_;
};

// "null", "true or false", "an integer", …: for messages.
const char* Name(Json::Type type);

// Parses one JSON text, RFC 8259 to the letter (no comments, no trailing commas, no byte-order mark, strings valid
// UTF-8), and beyond it refuses duplicate keys and nesting deeper than 64. Error(kData): "SOURCE: byte 17: …".
Json ParseJson(std::string_view text, const std::string& source);
// ParseJson of a file's content, Error(kData) also where it cannot be read.
Json ReadJsonFile(const std::string& path);

// Reads an object with the path of the key in every error: "run.json: optimizer.beta: must be a number, but is a
// string". Keeps a pointer to the value, which must outlive it. Every error is Error(kind), kData unless told.
class JsonReader {
 public:
  JsonReader(const Json& object, std::string source, ErrorKind kind = ErrorKind::kData);

  bool Has(std::string_view key) const;
  bool Bool(std::string_view key) const;
  int64_t Int(std::string_view key) const;
  int64_t Int(std::string_view key, int64_t low, int64_t high) const;  // low ≤ value ≤ high
  double Double(std::string_view key) const;                           // an integer too
  const std::string& String(std::string_view key) const;
  const Json::Array& Array(std::string_view key) const;
  JsonReader Object(std::string_view key) const;
  const Json& Value(std::string_view key) const;

  // Error if the object has a member that none of the above has asked for: a key that is not understood is an error.
  void RejectUnread() const;

  // Throws Error(kind) with "SOURCE: PATH.key: " before the parts.
  template <typename... Parts>
  CROSSTALK_LOCAL [[noreturn]] void FailAt(std::string_view key, const Parts&... parts) const {
    Fail(kind_, Where(key), ": ", parts...);
  }

 private:
  JsonReader(const Json& object, std::string source, std::string path, ErrorKind kind);
  std::string Where(std::string_view key) const;
  const Json& Typed(std::string_view key, Json::Type type) const;

  const Json* object_;
  std::string source_;
  std::string path_;  // "" at the root, else with a dot at its end
  ErrorKind kind_;
  mutable std::vector<bool> read_;  // by member, in its order
};

}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk {

// From JSON text to values: a strict parser with byte offsets in its errors. The parser inside is nlohmann's; only
// this file uses it.

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
