#include "crosstalk/runtime/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "crosstalk/runtime/atomic_file.h"

namespace crosstalk {
namespace {

constexpr int kMaxDepth = 64;
constexpr uint64_t kMaxJsonFileBytes = uint64_t{1} << 30;

// ---- parsing ----

[[noreturn]] void FailAtByte(const std::string& source, size_t offset, const std::string& reason) {
  Fail(ErrorKind::kData, source, ": byte ", offset, ": ", reason);
}

// Reads characters and counts them where the receiver of the events can see it: the SAX interface tells positions
// for its own errors only.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, size_t* count) : at_(at), count_(count) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*count_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  size_t* count_;
};

// nlohmann's wording without its prefix "[json.exception…] parse error at line 1, column 2: ", in ASCII.
std::string PlainReason(std::string_view what) {
  if (const size_t bracket = what.find("] "); bracket != std::string_view::npos) what.remove_prefix(bracket + 2);
  if (what.substr(0, 11) == "parse error") {
    if (const size_t colon = what.find(": "); colon != std::string_view::npos) what.remove_prefix(colon + 2);
  }
  std::string reason(what);
  for (char& c : reason) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return reason;
}

// Hands nlohmann's events on, and stops what it would let pass.
class EventsAdapter {
 public:
  EventsAdapter(JsonEvents& events, const std::string& source, const size_t& offset)
      : events_(events), source_(source), offset_(offset) {}

  bool null() { return events_.OnNull(offset_), true; }
  bool boolean(bool value) { return events_.OnBool(value, offset_), true; }
  bool number_integer(int64_t value) { return events_.OnNegative(value, offset_), true; }
  bool number_unsigned(uint64_t value) { return events_.OnUnsigned(value, offset_), true; }
  bool number_float(double value, const std::string& text) {
    // An integer beyond 64 bits arrives here, rounded.
    if (text.find_first_of(".eE") == std::string::npos) {
      FailAtByte(source_, offset_, StrCat("the integer ", text.substr(0, 40), " does not fit 64 bits"));
    }
    return events_.OnDouble(value, offset_), true;
  }
  bool string(std::string& value) { return events_.OnString(std::move(value), offset_), true; }
  bool binary(std::vector<uint8_t>&) { return false; }  // not in text
  bool key(std::string& key) { return events_.OnKey(std::move(key), offset_), true; }
  bool start_object(size_t) {
    Enter();
    return events_.OnObjectBegin(offset_), true;
  }
  bool end_object() {
    --depth_;
    return events_.OnObjectEnd(offset_), true;
  }
  bool start_array(size_t) {
    Enter();
    return events_.OnArrayBegin(offset_), true;
  }
  bool end_array() {
    --depth_;
    return events_.OnArrayEnd(offset_), true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) {
    // At the end of the text the position counts one byte that is not there.
    FailAtByte(source_, std::min(position, offset_), PlainReason(error.what()));
  }

 private:
  void Enter() {
    if (++depth_ > kMaxDepth) FailAtByte(source_, offset_, StrCat("nested deeper than ", kMaxDepth));
  }

  JsonEvents& events_;
  const std::string& source_;
  const size_t& offset_;
  int depth_ = 0;
};

// Builds the value from the events.
class Builder : public JsonEvents {
 public:
  explicit Builder(const std::string& source) : source_(source) {}

  void OnNull(size_t) override { Add(Json()); }
  void OnBool(bool value, size_t) override { Add(Json(value)); }
  void OnUnsigned(uint64_t value, size_t offset) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      FailAtByte(source_, offset, StrCat("the integer ", value, " does not fit 64 bits with a sign"));
    }
    Add(Json(value));
  }
  void OnNegative(int64_t value, size_t) override { Add(Json(value)); }
  void OnDouble(double value, size_t) override { Add(Json(value)); }
  void OnString(std::string value, size_t) override { Add(Json(std::move(value))); }
  void OnKey(std::string key, size_t offset) override {
    if (!open_.back().keys.insert(key).second) FailAtByte(source_, offset, StrCat("duplicate key \"", key, "\""));
    open_.back().key = std::move(key);
  }
  void OnObjectBegin(size_t) override { open_.emplace_back(); }
  void OnObjectEnd(size_t) override { Close(Json(std::move(open_.back().object))); }
  void OnArrayBegin(size_t) override {
    open_.emplace_back();
    open_.back().is_array = true;
  }
  void OnArrayEnd(size_t) override { Close(Json(std::move(open_.back().array))); }

  Json Take() { return std::move(root_); }

 private:
  struct Frame {
    bool is_array = false;
    Json::Array array;
    Json::Object object;
    std::string key;
    std::unordered_set<std::string> keys;
  };

  void Add(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_array) {
      open_.back().array.push_back(std::move(value));
    } else {
      open_.back().object.emplace_back(std::move(open_.back().key), std::move(value));
    }
  }
  void Close(Json value) {
    open_.pop_back();
    Add(std::move(value));
  }

  const std::string& source_;
  std::vector<Frame> open_;
  Json root_;
};

// ---- writing ----

// Bytes of the UTF-8 character at text[i], 0 if it is not one (overlong, surrogate, beyond U+10FFFF, cut off).
size_t Utf8Length(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) { return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u; };
  const auto tail = [&](size_t k) { return (byte(k) & 0xc0) == 0x80; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return tail(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    if (!tail(1) || !tail(2)) return 0;
    if (lead == 0xe0 && byte(1) < 0xa0) return 0;
    if (lead == 0xed && byte(1) >= 0xa0) return 0;
    return 3;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if (lead == 0xf0 && byte(1) < 0x90) return 0;
    if (lead == 0xf4 && byte(1) >= 0x90) return 0;
    return 4;
  }
  return 0;
}

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
    case Json::Type::kString:
      return "a string";
    case Json::Type::kArray:
      return "an array";
    case Json::Type::kObject:
      return "an object";
  }
  return "?";
}

size_t FindInvalidUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    uint64_t eight;  // plain ASCII goes by in words: corpora are checked here
    if (text.size() - i >= sizeof eight) {
      std::memcpy(&eight, text.data() + i, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        i += sizeof eight;
        continue;
      }
    }
    const size_t length = Utf8Length(text, i);
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
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
  if (!is_double()) FailType("a number", type());
  return std::get<double>(value_);
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
  if (value == nullptr) Fail(ErrorKind::kData, "JSON: there is no \"", key, "\"");
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

void ParseJsonEvents(std::string_view text, const std::string& source, JsonEvents& events) {
  // Two things that the parser takes without a word: a NUL as the end of the text, and a byte-order mark.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) FailAtByte(source, nul, "a NUL byte");
  if (text.substr(0, 3) == "\xef\xbb\xbf") FailAtByte(source, 0, "begins with a byte-order mark");
  size_t offset = 0;
  EventsAdapter adapter(events, source, offset);
  const CountingIterator begin(text.data(), &offset);
  const CountingIterator end(text.data() + text.size(), &offset);
  if (!nlohmann::json::sax_parse(begin, end, &adapter)) FailAtByte(source, offset, "not JSON");
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

std::string JsonReader::Where(std::string_view key) const { return StrCat(source_, ": ", path_, key); }

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
  const bool fits = value.type() == type || (type == Json::Type::kDouble && value.is_int());
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

bool JsonReader::BoolOr(std::string_view key, bool otherwise) const { return Has(key) ? Bool(key) : otherwise; }
int64_t JsonReader::IntOr(std::string_view key, int64_t otherwise) const { return Has(key) ? Int(key) : otherwise; }
double JsonReader::DoubleOr(std::string_view key, double otherwise) const { return Has(key) ? Double(key) : otherwise; }
std::string JsonReader::StringOr(std::string_view key, std::string_view otherwise) const {
  return Has(key) ? String(key) : std::string(otherwise);
}

void JsonReader::RejectUnread() const {
  const Json::Object& members = object_->AsObject();
  for (size_t i = 0; i < members.size(); ++i) {
    if (!read_[i]) FailAt(members[i].first, "is not a key that is known here");
  }
}

}  // namespace crosstalk
