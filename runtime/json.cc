#include "crosstalk/runtime/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr uint64_t kMaxJsonFileBytes = uint64_t{1} << 30;

// Builds the value from the events.
class Builder : public JsonEvents {
 public:
  explicit Builder(const std::string& source) : source_(source) { OnArrayBegin(0); }

  void OnNull(size_t) override { Add(nullptr); }
  void OnBool(bool value, size_t) override { Add(value); }
  void OnUnsigned(uint64_t value, size_t offset) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      OnBigInteger(StrCat(value), offset);
    } else {
      Add(value);
    }
  }
  void OnNegative(int64_t value, size_t) override { Add(value); }
  void OnBigInteger(std::string digits, size_t) override { Add(Json::BigInteger{std::move(digits)}); }
  void OnDouble(double value, size_t) override { Add(value); }
  void OnString(std::string value, size_t) override { Add(std::move(value)); }
  void OnKey(std::string key, size_t offset) override {
    if (!open_.back().keys.insert(key).second) FailAtByte(source_, offset, StrCat("duplicate key ", Quoted(key)));
    open_.back().key = std::move(key);
  }
  void OnObjectBegin(size_t) override { open_.emplace_back(); }
  void OnObjectEnd(size_t) override { Close(std::move(open_.back().object)); }
  void OnArrayBegin(size_t) override {
    open_.emplace_back();
    open_.back().is_array = true;
  }
  void OnArrayEnd(size_t) override { Close(std::move(open_.back().array)); }

  Json Take() { return std::move(open_.front().array.front()); }

 private:
  struct Frame {
    bool is_array = false;
    Json::Array array;
    Json::Object object;
    std::string key;
    std::unordered_set<std::string> keys;
  };

  template <typename T>
  void Add(T value) {
    if (open_.back().is_array) {
      open_.back().array.emplace_back(std::move(value));
    } else {
      open_.back().object.emplace_back(std::move(open_.back().key), std::move(value));
    }
  }
  template <typename T>
  void Close(T value) {
    open_.pop_back();
    Add(std::move(value));
  }

  const std::string& source_;
  std::vector<Frame> open_;  // the outermost holds the whole value
};

void WriteString(std::string_view text, std::string& out) {
  out += '"';
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text, i);
    const char c = text[i];
    if (length == 0) {
      out += "\xef\xbf\xbd";
      ++i;
      continue;
    }
    if (length > 1) {
      out.append(text, i, length);
    } else if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      constexpr char kHex[] = "0123456789abcdef";
      ((out += "\\u00") += kHex[c >> 4]) += kHex[c & 15];
    } else {
      out += c;
    }
    i += length;
  }
  out += '"';
}

void WriteDouble(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char text[32];
  const auto result = std::to_chars(text, text + sizeof(text), value);
  const std::string_view digits(text, result.ptr - text);
  out += digits;
  if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";
}

// indent < 0: one line.
void WriteValue(const Json& value, int indent, std::string& out) {
  const auto line = [&](int level) {
    if (indent >= 0) out.append("\n").append(2 * level, ' ');
  };
  const char* separator = indent >= 0 ? "," : ", ";
  const int inner = indent >= 0 ? indent + 1 : indent;
  bool first = true;
  switch (value.type()) {
    case Json::Type::kNull:
      out += "null";
      return;
    case Json::Type::kBool:
      out += value.AsBool() ? "true" : "false";
      return;
    case Json::Type::kInt:
      out += std::to_string(value.AsInt());
      return;
    case Json::Type::kDouble:
      WriteDouble(value.AsDouble(), out);
      return;
    case Json::Type::kBigInteger:
      out += value.AsBigInteger().digits;
      return;
    case Json::Type::kString:
      WriteString(value.AsString(), out);
      return;
    case Json::Type::kArray:
      out += '[';
      for (const Json& element : value.AsArray()) {
        if (!first) out += separator;
        first = false;
        line(inner);
        WriteValue(element, inner, out);
      }
      if (!first) line(indent);
      out += ']';
      return;
    case Json::Type::kObject:
      out += '{';
      for (const auto& [key, member] : value.AsObject()) {
        if (!first) out += separator;
        first = false;
        line(inner);
        WriteString(key, out);
        out += ": ";
        WriteValue(member, inner, out);
      }
      if (!first) line(indent);
      out += '}';
      return;
  }
}

[[noreturn]] void FailType(const char* wanted, Json::Type type) {
  Fail(ErrorKind::kData, "JSON: must be ", wanted, ", but is ", Name(type));
}

}  // namespace

const char* Name(Json::Type type) {
  switch (type) {
    case Json::Type::kNull:
      return "null";
    case Json::Type::kBool:
      return "true or false";
    case Json::Type::kInt:
      return "an integer";
    case Json::Type::kDouble:
      return "a number";
    case Json::Type::kBigInteger:
      return "an integer beyond 64 bits";
    case Json::Type::kString:
      return "a string";
    case Json::Type::kArray:
      return "an array";
    case Json::Type::kObject:
      return "an object";
  }
  return "?";
}

// The alternative is copied first and moved in when it is whole: the copy constructor of libstdc++ 12's variant, where
// it finds no memory, destroys an alternative that was never made.
Json::Json(const Json& other) : Json() {
  std::visit(
      [this](const auto& value) {
        auto copy = value;
        value_ = std::move(copy);
      },
      other.value_);
}

bool Json::AsBool() const {
  if (!is_bool()) FailType("true or false", type());
  return std::get<bool>(value_);
}

int64_t Json::AsInt() const {
  if (!is_int()) FailType("an integer", type());
  return std::get<int64_t>(value_);
}

double Json::AsDouble() const {
  if (is_int()) return static_cast<double>(std::get<int64_t>(value_));
  if (is_big_integer()) {
    const std::string& digits = AsBigInteger().digits;
    double value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  }
  if (!is_double()) FailType("a number", type());
  return std::get<double>(value_);
}

const Json::BigInteger& Json::AsBigInteger() const {
  if (!is_big_integer()) FailType("an integer beyond 64 bits", type());
  return std::get<BigInteger>(value_);
}

const std::string& Json::AsString() const {
  if (!is_string()) FailType("a string", type());
  return std::get<std::string>(value_);
}

const Json::Array& Json::AsArray() const {
  if (!is_array()) FailType("an array", type());
  return std::get<Array>(value_);
}

const Json::Object& Json::AsObject() const {
  if (!is_object()) FailType("an object", type());
  return std::get<Object>(value_);
}

const Json* Json::Find(std::string_view key) const {
  if (is_null()) return nullptr;
  for (const auto& [name, value] : AsObject()) {
    if (name == key) return &value;
  }
  return nullptr;
}

const Json& Json::At(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) Fail(ErrorKind::kData, "JSON: there is no ", Quoted(key));
  return *value;
}

Json& Json::Set(std::string_view key, Json value) {
  if (is_null()) value_ = Object();
  if (!is_object()) FailType("an object", type());
  Object& members = std::get<Object>(value_);
  for (auto& [name, old] : members) {
    if (name == key) {
      old = std::move(value);
      return *this;
    }
  }
  members.emplace_back(std::string(key), std::move(value));
  return *this;
}

Json& Json::Append(Json element) {
  if (is_null()) value_ = Array();
  if (!is_array()) FailType("an array", type());
  std::get<Array>(value_).push_back(std::move(element));
  return *this;
}

std::string Json::Dump() const {
  std::string out;
  WriteValue(*this, -1, out);
  return out;
}

std::string Json::DumpPretty() const {
  std::string out;
  WriteValue(*this, 0, out);
  out += '\n';
  return out;
}

Json ParseJson(std::string_view text, const std::string& source) {
  Builder builder(source);
  ParseJsonEvents(text, source, builder);
  return builder.Take();
}

Json ReadJsonFile(const std::string& path) { return ParseJson(ReadFile(path, kMaxJsonFileBytes), path); }

// ---- JsonReader ----

JsonReader::JsonReader(const Json& object, std::string source, ErrorKind kind)
    : JsonReader(object, std::move(source), "", kind) {}

JsonReader::JsonReader(const Json& object, std::string source, std::string path, ErrorKind kind)
    : object_(&object), source_(std::move(source)), path_(std::move(path)), kind_(kind) {
  if (!object.is_object()) {
    const std::string where = path_.empty() ? source_ : source_ + ": " + path_.substr(0, path_.size() - 1);
    Fail(kind_, where, ": must be an object, but is ", Name(object.type()));
  }
  read_.resize(object.AsObject().size());
}

std::string JsonReader::Where(std::string_view key) const { return StrCat(source_, ": ", path_, Excerpt(key)); }

bool JsonReader::Has(std::string_view key) const { return object_->Find(key) != nullptr; }

const Json& JsonReader::Value(std::string_view key) const {
  const Json::Object& members = object_->AsObject();
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].first == key) {
      read_[i] = true;
      return members[i].second;
    }
  }
  FailAt(key, "is missing");
}

const Json& JsonReader::Typed(std::string_view key, Json::Type type) const {
  const Json& value = Value(key);
  const bool fits = value.type() == type || (type == Json::Type::kDouble && value.is_number());
  if (!fits) FailAt(key, "must be ", Name(type), ", but is ", Name(value.type()));
  return value;
}

bool JsonReader::Bool(std::string_view key) const { return Typed(key, Json::Type::kBool).AsBool(); }
int64_t JsonReader::Int(std::string_view key) const { return Typed(key, Json::Type::kInt).AsInt(); }

int64_t JsonReader::Int(std::string_view key, int64_t low, int64_t high) const {
  const int64_t value = Int(key);
  if (value < low || value > high) FailAt(key, "must be ", low, " … ", high, ", but is ", value);
  return value;
}

double JsonReader::Double(std::string_view key) const { return Typed(key, Json::Type::kDouble).AsDouble(); }

const std::string& JsonReader::String(std::string_view key) const { return Typed(key, Json::Type::kString).AsString(); }

const Json::Array& JsonReader::Array(std::string_view key) const { return Typed(key, Json::Type::kArray).AsArray(); }

JsonReader JsonReader::Object(std::string_view key) const {
  return JsonReader(Value(key), source_, StrCat(path_, key, "."), kind_);
}

void JsonReader::RejectUnread() const {
  const Json::Object& members = object_->AsObject();
  for (size_t i = 0; i < members.size(); ++i) {
    if (!read_[i]) FailAt(members[i].first, "is not a key that is known here");
  }
}

}  // namespace crosstalk
