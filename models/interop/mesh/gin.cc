#include "crosstalk/models/interop/mesh/gin.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr int kMostDepth = 16;
constexpr size_t kMostBindings = 10'000;
constexpr int kMostMacros = 8;                // one after the other
constexpr size_t kMostBytesOfMacro = 10'000;  // of a value's text, which each use of it copies
constexpr char kMacro = '%', kReference = '@';

bool IsGinSpace(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool IsOpening(char c) { return c == '[' || c == '(' || c == '{'; }
bool IsClosing(char c) { return c == ']' || c == ')' || c == '}'; }
// The characters of names, numbers and references.
bool IsGinWord(char c) {
  return IsAsciiLetter(c) || IsAsciiDigit(c) || c == '_' || c == '.' || c == '/' || c == '-' || c == '+' ||
         c == kMacro || c == kReference;
}

// Statements one after the other: each on a line, which goes on within brackets and after a backslash.
class StatementReader {
 public:
  StatementReader(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  // The next one without its comments and with its line ends as spaces; nothing if there is no more.
  std::optional<std::string> Next() {
    std::string statement;
    int depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '\'' || c == '"') {
        statement += TakeString();
      } else if (c == '\n') {
        ++line_, ++at_;
        if (depth == 0 && !statement.empty()) return statement;
        if (!statement.empty()) statement += ' ';
      } else if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
        ++line_, at_ += 2;
        statement += ' ';
      } else {
        if (IsOpening(c) && ++depth > kMostDepth) Reject("lists deeper than ", kMostDepth);
        if (IsClosing(c) && --depth < 0) Reject("a bracket that nothing opens");
        if (!statement.empty() || !IsGinSpace(c)) statement += c;
        ++at_;
      }
    }
    if (depth > 0) Reject("a bracket that nothing closes");
    if (statement.empty()) return std::nullopt;
    return statement;
  }

 private:
  std::string TakeString() {
    const size_t begin = at_;
    const char quote = text_[at_++];
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\n') Reject("a string without end");
      at_ += text_[at_] == '\\' ? 2 : 1;
    }
    if (at_ >= text_.size()) Reject("a string without end");
    return std::string(text_.substr(begin, ++at_ - begin));
  }

  template <typename... Parts>
  [[noreturn]] void Reject(const Parts&... parts) const {
    Fail(ErrorKind::kData, source_, ": line ", line_, ": ", parts...);
  }

  std::string_view text_;
  const std::string& source_;
  size_t at_ = 0;
  int line_ = 1;
};

// A value as JSON, macros as the string "%NAME"; nothing if it is none that is read.
class ValueReader {
 public:
  explicit ValueReader(std::string_view text) : text_(text) {}

  std::optional<Json> Whole() {
    std::optional<Json> value = Value();
    SkipSpaces();
    if (at_ != text_.size()) return std::nullopt;
    return value;
  }

 private:
  void SkipSpaces() {
    while (at_ < text_.size() && IsGinSpace(text_[at_])) ++at_;
  }

  std::optional<Json> Value() {
    SkipSpaces();
    if (at_ == text_.size()) return std::nullopt;
    const char c = text_[at_];
    if (c == '[' || c == '(') return List(c == '[' ? ']' : ')');
    if (c == '\'' || c == '"') return String();
    const size_t begin = at_;
    while (at_ < text_.size() && IsGinWord(text_[at_])) ++at_;
    return Word(text_.substr(begin, at_ - begin));
  }

  std::optional<Json> List(char closing) {
    Json list = Json::MakeArray();
    for (++at_;;) {
      SkipSpaces();
      if (at_ < text_.size() && text_[at_] == closing) break;
      std::optional<Json> element = Value();
      if (!element || (element->is_string() && element->AsString().starts_with(kMacro))) return std::nullopt;
      list.Append(std::move(*element));
      SkipSpaces();
      if (at_ == text_.size()) return std::nullopt;
      if (text_[at_] == ',') {
        ++at_;
      } else if (text_[at_] != closing) {
        return std::nullopt;
      }
    }
    ++at_;
    return list;
  }

  // Without escape sequences, and not one that looks like a reference or a macro: no value that is read is such.
  std::optional<Json> String() {
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view text = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    if (text.find('\\') != std::string_view::npos || FindInvalidUtf8(text) != std::string_view::npos ||
        text.starts_with(kMacro) || text.starts_with(kReference)) {
      return std::nullopt;
    }
    return Json(text);
  }

  static std::optional<Json> Word(std::string_view word) {
    if (word == "True") return Json(true);
    if (word == "False") return Json(false);
    if (word == "None") return Json();
    if (word.size() > 1 && (word[0] == kMacro || word[0] == kReference)) return Json(word);
    int64_t integer = 0;
    const char* const end = word.data() + word.size();
    if (const auto read = std::from_chars(word.data(), end, integer); read.ec == std::errc() && read.ptr == end) {
      return Json(integer);
    }
    double number = 0;
    const bool digits = std::any_of(word.begin(), word.end(), IsAsciiDigit);  // no "inf", no "nan"
    if (const auto read = std::from_chars(word.data(), end, number);
        digits && read.ec == std::errc() && read.ptr == end) {
      return Json(number);
    }
    return std::nullopt;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Bindings in the order of their names' first statements, each with its last value.
class Bindings {
 public:
  void Set(std::string_view name, Json value, size_t bytes) {
    const auto [place, is_new] = places_.try_emplace(std::string(name), bound_.size());
    if (is_new) bound_.push_back({place->first, {}, 0});
    bound_[place->second].value = std::move(value);
    bound_[place->second].bytes = bytes;
  }
  size_t size() const { return bound_.size(); }

  // By their names, macros as their values. One whose macro has none, or a long one, is left out.
  Json Resolved() const {
    Json::Object resolved;
    for (const Bound& one : bound_) {
      if (std::optional<Json> value = WithoutMacro(one.value)) resolved.emplace_back(one.name, std::move(*value));
    }
    return Json(std::move(resolved));
  }

 private:
  struct Bound {
    std::string name;
    Json value;
    size_t bytes;  // of the value's text
  };

  // The value of %NAME, itself a macro or not; nothing if there is none.
  std::optional<Json> WithoutMacro(const Json& value) const {
    const Json* found = &value;
    for (int i = 0; i < kMostMacros; ++i) {
      if (!found->is_string() || !found->AsString().starts_with(kMacro)) return *found;
      const auto place = places_.find(std::string_view(found->AsString()).substr(1));
      if (place == places_.end() || bound_[place->second].bytes > kMostBytesOfMacro) return std::nullopt;
      found = &bound_[place->second].value;
    }
    return std::nullopt;
  }

  std::vector<Bound> bound_;
  std::map<std::string, size_t, std::less<>> places_;  // in bound_
};

enum class GinList { kList, kTuple };

// A list's own lists are tuples, as gin's users write dimensions: [('heads', 4)].
std::string WriteValue(const Json& value, GinList as) {
  switch (value.type()) {
    case Json::Type::kNull:
      return "None";
    case Json::Type::kBool:
      return value.AsBool() ? "True" : "False";
    case Json::Type::kString: {
      const std::string& text = value.AsString();
      const char* const quote = text.find('\'') == std::string::npos ? "'" : "\"";
      return text.starts_with(kReference) ? text : quote + text + quote;
    }
    case Json::Type::kArray: {
      std::vector<std::string> parts;
      for (const Json& element : value.AsArray()) parts.push_back(WriteValue(element, GinList::kTuple));
      const std::string inner = Join(parts, ", ");
      if (as == GinList::kList) return "[" + inner + "]";
      return parts.size() == 1 ? "(" + inner + ",)" : "(" + inner + ")";
    }
    default:
      return value.Dump();
  }
}

}  // namespace

Json ReadGin(std::string_view text, const std::string& source) {
  Bindings bindings;
  StatementReader statements(text, source);
  while (const std::optional<std::string> statement = statements.Next()) {
    const size_t equals = statement->find('=');
    if (equals == std::string::npos) continue;
    std::string_view name = std::string_view(*statement).substr(0, equals);
    while (!name.empty() && IsGinSpace(name.back())) name.remove_suffix(1);
    if (name.empty() || !std::all_of(name.begin(), name.end(), IsGinWord)) continue;
    std::optional<Json> value = ValueReader(std::string_view(*statement).substr(equals + 1)).Whole();
    if (!value) continue;
    bindings.Set(name, std::move(*value), statement->size() - equals - 1);
    if (bindings.size() > kMostBindings) {
      Fail(ErrorKind::kData, source, ": has more than ", kMostBindings, " bindings");
    }
  }
  return bindings.Resolved();
}

std::string WriteGin(const Json& bindings) {
  std::string text;
  for (const auto& [name, value] : bindings.AsObject()) text += name + " = " + WriteValue(value, GinList::kList) + "\n";
  return text;
}

}  // namespace crosstalk
