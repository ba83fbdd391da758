// Errors and the two kinds of check: the caller's mistakes (always on, thrown as Error) and our own (debug).
#pragma once

#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// The kind of an error. The values are the exit codes of the `crosstalk` command.
enum class ErrorKind {
  kFailure = 1,    // none of the below
  kUsage = 2,      // an option, a configuration or an argument that cannot be honoured
  kData = 3,       // a data, model or checkpoint file that was rejected
  kNumerical = 4,  // a loss or gradient that is not finite
  kResource = 5,   // out of memory or of disk space
};

// StrCat("k=", 3, " in ", name) == "k=3 in Q": every argument through operator<<, whatever std::locale is global.
template <typename... Parts>
CROSSTALK_LOCAL std::string StrCat(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  // Else a stream that finds no memory writes no more, and says nothing.
  out.exceptions(std::ios_base::badbit);
  (out << ... << parts);
  return out.str();
}

// A part of a message that names a configuration field, as a file has it: "learning_rate", or with a value "clip = 1".
// A program that calls fields by other names finds where to put those in Message::fields(); the command prints
// "--learning-rate" and "--clip 1". StrCat, which would forget the place, does not take it.
struct FieldName {
  std::string_view name, value = {};
};

// A text of parts, as StrCat makes it, that knows where it names fields. Message is a part too.
class Message {
 public:
  struct Place {
    size_t begin, size;  // of the name in text()
    size_t gap;          // of " = " between it and its value; 0: no value
  };

  template <typename... Parts>
  CROSSTALK_LOCAL explicit Message(const Parts&... parts) {
    Add(parts...);
  }
  template <typename... Parts>
  CROSSTALK_LOCAL void Add(const Parts&... parts) {
    (AddPart(parts), ...);
  }
  const std::string& text() const { return text_; }
  const std::vector<Place>& fields() const { return fields_; }

 private:
  template <typename Part>
  CROSSTALK_LOCAL void AddPart(const Part& part) {
    if constexpr (std::is_same_v<Part, Message>) {
      for (const Place& place : part.fields_) fields_.push_back({text_.size() + place.begin, place.size, place.gap});
      text_ += part.text_;
    } else if constexpr (std::is_same_v<Part, FieldName>) {
      const std::string_view gap = part.value.empty() ? "" : " = ";
      fields_.push_back({text_.size(), part.name.size(), gap.size()});
      text_.append(part.name).append(gap).append(part.value);
    } else if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
      text_ += part;
    } else {
      text_ += StrCat(part);
    }
  }

  std::string text_;
  std::vector<Place> fields_;
};

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

template <typename... Parts>
CROSSTALK_LOCAL [[noreturn]] void Fail(ErrorKind kind, const Parts&... parts) {
  throw Error(kind, Message(parts...));
}

// "d_model: 0 is less than 1", with "d_model" as the error's field, which the message names there.
template <typename... Parts>
CROSSTALK_LOCAL [[noreturn]] void FailField(ErrorKind kind, std::string_view field, const Parts&... parts) {
  throw Error(kind, Message(FieldName{field}, ": ", parts...), std::string(field));
}

// The caller's mistake: throws Error(kUsage) with the rest of the arguments as its message.
#define CROSSTALK_CHECK(condition, ...) \
  do { \
    if (!(condition)) [[unlikely]] \
      ::crosstalk::Fail(::crosstalk::ErrorKind::kUsage, __VA_ARGS__); \
  } while (0)

// The same for a field of a configuration: CROSSTALK_CHECK_FIELD(d > 0, "d_model", d, " is less than 1").
#define CROSSTALK_CHECK_FIELD(condition, field, ...) \
  do { \
    if (!(condition)) [[unlikely]] \
      ::crosstalk::FailField(::crosstalk::ErrorKind::kUsage, field, __VA_ARGS__); \
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
