// What the fields of a configuration or a record (runtime/field.h) can hold: the types, a row's options, and a value's
// form in JSON.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"

#pragma GCC visibility push(default)
namespace crosstalk {

enum class FieldType { kString, kInt, kDouble, kBool, kChoice, kObject, kNames };

// low ≤ value ≤ high.
struct FieldRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};
// Integers are bounded by 2^40, so that sums of them are far from overflow. Products saturate (runtime/math.h).
constexpr FieldRange AtLeast(double low) { return {low, 1099511627776.0}; }

// Whether a field decides bits of the result: a run can be continued with another value of one that does not.
enum class AffectsResult { kYes, kNo };

// Whether a run that begins with another's weights has the field's value from that one: unless its user gives another;
// or always, so that a given one must be the same.
enum class Inherited { kNo, kUnlessGiven, kFixed };

// The choices of another field of the table with which a field is read; no choices: it is always read.
struct FieldReaders {
  const char* key = "";  // "optimizer"
  std::vector<std::string> choices = {};
};

// A row's options besides its key and its place.
struct FieldOptions {
  const char* placeholder = "";  // the value's name in the help: "N", "PATH"
  std::string help;              // sentences, with the unit
  FieldRange range = {};         // of a number, or of each in a list
  AffectsResult affects_result = AffectsResult::kYes;
  Inherited inherited = Inherited::kNo;
  std::vector<std::string> choices = {};  // of a string; an enum brings its own
  FieldReaders read_by = {};
  // Set for a row that is added to a table of which files exist: they are read with its default.
  bool may_be_missing = false;
  // Set for a row that few configurations need: files leave it out if it has its default, and are read with that.
  bool only_if_set = false;
  // Set for texts that may have a NUL in them: no path, and nothing that C reads as a text.
  bool may_have_nul = false;
  // Set for named values that are written as members of the whole, under their own names.
  bool spread = false;
  // Set for a text, or a list of texts, that is a path, except if it is one of `not_paths`: a file of options means
  // it from its own folder (ValueIn).
  bool is_path = false;
  std::vector<std::string> not_paths = {};
  // What files and command lines of earlier versions call the field.
  const char* former_key = "";
  // On a command line: "--output,-o" instead of --KEY alone; "MODEL", without dashes, of an argument that is known by
  // its place, and if it is a list is given once or more.
  const char* names = "";
  bool required = false;  // an error on a command line and in its configuration file if it is missing
};

namespace internal {

// What an std::optional or a list holds.
template <typename T>
struct OneOfType {
  using Type = T;
};
template <typename T>
requires(requires { typename T::value_type; } && !std::is_same_v<T, std::string>) struct OneOfType<T> {
  using Type = typename T::value_type;
};
template <typename T>
using OneOf = typename OneOfType<T>::Type;

template <typename T>
constexpr FieldType TypeOf() {
  if constexpr (NamedEnum<T>) return FieldType::kChoice;
  if constexpr (std::is_same_v<T, bool>) return FieldType::kBool;
  if constexpr (std::is_integral_v<T>) return FieldType::kInt;
  if constexpr (std::is_floating_point_v<T>) return FieldType::kDouble;
  return FieldType::kString;
}

void CheckNumber(const std::string& key, double value, const FieldRange& range);
void CheckChoice(const std::string& key, const std::string& value, const std::vector<std::string>& choices);
// No NUL: the system would end a path there, and C a text.
void CheckText(const std::string& key, const std::string& value);
// Whether a file can keep it: UTF-8, and no longer than a path is.
void CheckKept(const std::string& key, const std::string& value);
// Error(kUsage): "d_model: must be an integer, but is a string".
void CheckType(const std::string& key, const Json& value, FieldType type);

}  // namespace internal

// A value's form in JSON, recursively. Specialised elsewhere for what is none of the values above: records
// (runtime/record.h), and types with a form of their own.
template <typename T>
struct JsonForm {
  static constexpr FieldType kType = internal::TypeOf<T>();
  static Json Write(const T& value) {
    if constexpr (NamedEnum<T>) {
      return Json(Name(value));
    } else {
      return Json(value);
    }
  }
  // Error(kUsage) of the field `key` if it is none, or is not as the options have it.
  static T Read(const std::string& key, const Json& json, const FieldOptions& options) {
    internal::CheckType(key, json, kType);
    if constexpr (NamedEnum<T>) {
      return ParseName<T>(key, json.AsString());
    } else if constexpr (std::is_same_v<T, bool>) {
      return json.AsBool();
    } else if constexpr (std::is_integral_v<T>) {
      const int64_t value = json.AsInt();
      internal::CheckNumber(key, static_cast<double>(value), options.range);
      CROSSTALK_CHECK_FIELD(std::in_range<T>(value), key, value, " is out of range");
      return static_cast<T>(value);
    } else if constexpr (std::is_floating_point_v<T>) {
      internal::CheckNumber(key, json.AsDouble(), options.range);
      return json.AsDouble();
    } else {
      if (!options.choices.empty()) internal::CheckChoice(key, json.AsString(), options.choices);
      if (!options.may_have_nul) internal::CheckText(key, json.AsString());
      return json.AsString();
    }
  }
};

// null: none.
template <typename T>
struct JsonForm<std::optional<T>> {
  static constexpr FieldType kType = JsonForm<T>::kType;
  static constexpr bool kOptional = true;
  static Json Write(const std::optional<T>& value) { return value ? JsonForm<T>::Write(*value) : Json(); }
  static std::optional<T> Read(const std::string& key, const Json& json, const FieldOptions& options) {
    if (json.is_null()) return std::nullopt;
    return JsonForm<T>::Read(key, json, options);
  }
};

// […]
template <typename List>
struct JsonListForm {
  using Value = typename List::value_type;
  static constexpr FieldType kType = JsonForm<Value>::kType;
  static constexpr bool kList = true;
  static Json Write(const List& values) {
    Json list = Json::MakeArray();
    for (const auto& one : values) list.Append(JsonForm<Value>::Write(one));
    return list;
  }
  static List Read(const std::string& key, const Json& json, const FieldOptions& options) {
    internal::CheckType(key, json, FieldType::kNames);
    List list;
    size_t i = 0;
    for (const Json& one : json.AsArray()) {
      const std::string place = kType == FieldType::kObject ? StrCat(key, "[", i++, "]") : key;
      list.insert(list.end(), JsonForm<Value>::Read(place, one, options));
    }
    return list;
  }
};
template <typename T>
struct JsonForm<std::vector<T>> : JsonListForm<std::vector<T>> {};
template <typename T>
struct JsonForm<std::set<T>> : JsonListForm<std::set<T>> {};

// {"name": value, …}
template <typename T>
struct JsonForm<std::map<std::string, T>> {
  static constexpr FieldType kType = FieldType::kObject;
  static Json Write(const std::map<std::string, T>& values) {
    Json object = Json::MakeObject();
    for (const auto& [name, value] : values) object.Set(name, JsonForm<T>::Write(value));
    return object;
  }
  static std::map<std::string, T> Read(const std::string& key, const Json& json, const FieldOptions& options) {
    internal::CheckType(key, json, kType);
    std::map<std::string, T> values;
    for (const auto& [name, value] : json.AsObject()) {
      values.emplace(name, JsonForm<T>::Read(StrCat(key, ".", Excerpt(name)), value, options));
    }
    return values;
  }
};

// As it is.
template <>
struct JsonForm<Json> {
  static constexpr FieldType kType = FieldType::kObject;
  static const Json& Write(const Json& value) { return value; }
  static const Json& Read(const std::string&, const Json& json, const FieldOptions&) { return json; }
};

}  // namespace crosstalk
#pragma GCC visibility pop
