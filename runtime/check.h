// Errors and the two kinds of check: the caller's mistakes (always on, thrown as Error) and our own (debug).
#pragma once

#include <initializer_list>
#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "crosstalk/runtime/visibility.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// The kind of an error. The values are the exit codes of the `crosstalk` command.
enum class ErrorKind {
  kFailure = 1,    // none of the below
  kUsage = 2,      // an option, a configuration or an argument that cannot be honoured
  kData = 3,       // a data, model or checkpoint file that was rejected
  kNumerical = 4,  // a loss or gradient that is not finite
  kResource = 5,   // out of memory or of disk space
};

// A part of a message that names a configuration field, as a file has it: "learning_rate", or with a value "clip = 1".
// A program that calls fields by other names finds where to put those in Message::fields(); the command prints
// "--learning-rate" and "--clip 1". StrCat, which would forget the place, does not take it.
struct FieldName {
  std::string_view name, value = {};
};

class Message;

// A part of a text, which must outlive it: what operator<< writes, whatever std::locale is global, or for a Message a
// field's name or another message. Functions that take parts of any types pass them on as these, so that a program has
// one function that joins parts and not one for each sequence of their types.
class TextPart {
 public:
  CROSSTALK_LOCAL TextPart(const char* text) : kind_(Kind::kText), text_(text) {}
  CROSSTALK_LOCAL TextPart(std::string_view text) : kind_(Kind::kText), text_(text) {}
  CROSSTALK_LOCAL TextPart(const std::string& text) : kind_(Kind::kText), text_(text) {}
  CROSSTALK_LOCAL TextPart(const FieldName& field) : kind_(Kind::kField), value_(&field) {}
  CROSSTALK_LOCAL TextPart(const Message& message) : kind_(Kind::kMessage), value_(&message) {}
  template <typename Value>
  CROSSTALK_LOCAL TextPart(const Value& value) {
    if constexpr (std::is_convertible_v<const Value&, std::string_view>) {
      kind_ = Kind::kText;
      text_ = value;
    } else {
      kind_ = Kind::kValue;
      value_ = &value;
      write_ = [](std::ostream& out, const void* of) { out << *static_cast<const Value*>(of); };
    }
  }

  CROSSTALK_LOCAL void AppendTo(std::string& text) const {
    if (kind_ == Kind::kText) {
      text += text_;
      return;
    }
    std::ostringstream out;
    out.imbue(std::locale::classic());
    // Else a stream that finds no memory writes no more, and says nothing.
    out.exceptions(std::ios_base::badbit);
    write_(out, value_);
    text += out.str();
  }

 private:
  friend class Message;
  enum class Kind { kText, kValue, kField, kMessage };

  Kind kind_;
  std::string_view text_;
  const void* value_ = nullptr;
  void (*write_)(std::ostream& out, const void* of) = nullptr;
};

// A text of parts that knows where it names fields.
class Message {
 public:
  struct Place {
    size_t begin, size;  // of the name in text()
    size_t gap;          // of " = " between it and its value; 0: no value
  };

  CROSSTALK_LOCAL explicit Message(std::initializer_list<TextPart> parts) { AddParts(parts); }
  template <typename... Parts>
  CROSSTALK_LOCAL explicit Message(const Parts&... parts) {
    AddParts({parts...});
  }
  template <typename... Parts>
  CROSSTALK_LOCAL void Add(const Parts&... parts) {
    AddParts({parts...});
  }
  const std::string& text() const { return text_; }
  const std::vector<Place>& fields() const { return fields_; }

 private:
  CROSSTALK_LOCAL void AddParts(std::initializer_list<TextPart> parts) {
    for (const TextPart& part : parts) {
      if (part.kind_ == TextPart::Kind::kField) {
        const auto& field = *static_cast<const FieldName*>(part.value_);
        const std::string_view gap = field.value.empty() ? "" : " = ";
        fields_.push_back({text_.size(), field.name.size(), gap.size()});
        text_.append(field.name).append(gap).append(field.value);
      } else if (part.kind_ == TextPart::Kind::kMessage) {
        const auto& message = *static_cast<const Message*>(part.value_);
        for (const Place& place : message.fields_) {
          fields_.push_back({text_.size() + place.begin, place.size, place.gap});
        }
        text_ += message.text_;
      } else {
        part.AppendTo(text_);
      }
    }
  }

  std::string text_;
  std::vector<Place> fields_;
};

namespace internal {
CROSSTALK_LOCAL inline std::string TextOf(std::initializer_list<TextPart> parts) {
  std::string text;
  for (const TextPart& part : parts) part.AppendTo(text);
  return text;
}
}  // namespace internal

// StrCat("k=", 3, " in ", name) == "k=3 in Q": every argument as a TextPart.
template <typename... Parts>
CROSSTALK_LOCAL std::string StrCat(const Parts&... parts) {
  static_assert(!(std::is_same_v<Parts, FieldName> || ...) && !(std::is_same_v<Parts, Message> || ...),
                "a text forgets where it names fields");
  return internal::TextOf({parts...});
}

// The only exception that the library throws on purpose. what() says what failed, where, and what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message, std::string field = "")
      : Error(kind, Message(message), std::move(field)) {}
  Error(ErrorKind kind, Message message, std::string field = "")
      : std::runtime_error(message.text()), kind_(kind), message_(std::move(message)), field_(std::move(field)) {}
  ErrorKind kind() const { return kind_; }
  // what(), and where it names fields.
  const Message& message() const { return message_; }
  // The configuration field that is at fault ("d_model"); empty: none in particular.
  const std::string& field() const { return field_; }

 private:
  ErrorKind kind_;
  Message message_;
  std::string field_;
};

namespace internal {
CROSSTALK_LOCAL [[noreturn]] inline void Throw(ErrorKind kind, std::initializer_list<TextPart> parts) {
  throw Error(kind, Message(parts));
}
CROSSTALK_LOCAL [[noreturn]] inline void ThrowOfField(ErrorKind kind, std::string_view field,
                                                      std::initializer_list<TextPart> parts) {
  throw Error(kind, Message(FieldName{field}, ": ", Message(parts)), std::string(field));
}
}  // namespace internal

template <typename... Parts>
CROSSTALK_LOCAL [[noreturn]] void Fail(ErrorKind kind, const Parts&... parts) {
  internal::Throw(kind, {parts...});
}

// "d_model: 0 is less than 1", with "d_model" as the error's field, which the message names there.
template <typename... Parts>
CROSSTALK_LOCAL [[noreturn]] void FailField(ErrorKind kind, std::string_view field, const Parts&... parts) {
  internal::ThrowOfField(kind, field, {parts...});
}

// The caller's mistake: throws Error(kUsage) with the rest of the arguments as its message.
#define CROSSTALK_CHECK(condition, ...) \
  do { \
    if (!(condition)) [[unlikely]] \
      ::crosstalk::internal::Throw(::crosstalk::ErrorKind::kUsage, {__VA_ARGS__}); \
  } while (0)

// The same for a field of a configuration: CROSSTALK_CHECK_FIELD(d > 0, "d_model", d, " is less than 1").
#define CROSSTALK_CHECK_FIELD(condition, field, ...) \
  do { \
    if (!(condition)) [[unlikely]] \
      ::crosstalk::internal::ThrowOfField(::crosstalk::ErrorKind::kUsage, field, {__VA_ARGS__}); \
  } while (0)

namespace internal {
[[noreturn]] void DebugCheckFailed(const char* condition, const char* file, int line);
}  // namespace internal

// Our mistake: throws std::logic_error naming the line. Compiled in unless CROSSTALK_NO_DEBUG_CHECKS; use it
// where its cost is nothing beside the work that follows, never per element.
#ifdef CROSSTALK_NO_DEBUG_CHECKS
#define CROSSTALK_DCHECK(condition) \
  do { \
  } while (0)
#else
#define CROSSTALK_DCHECK(condition) \
  do { \
    if (!(condition)) [[unlikely]] \
      ::crosstalk::internal::DebugCheckFailed(#condition, __FILE__, __LINE__); \
  } while (0)
#endif

}  // namespace crosstalk
#pragma GCC visibility pop
