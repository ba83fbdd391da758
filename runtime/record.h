// Record: a struct that is written to JSON and read back by the table of fields that its type gives, so that a new
// member is one row:
//
//   struct Origin {
//     std::string checkpoint;
//     std::optional<int64_t> step;
//     static FieldTable<Origin> Fields() {
//       return {{"checkpoint", &Origin::checkpoint}, {"step", &Origin::step, {.only_if_set = true}}};
//     }
//   };
//   WriteFileAtomically(path, ToJson(origin).DumpPretty());
//   const Origin origin = ReadRecord<Origin>(path);
//
// A member may be a record itself, an std::optional of one, or a list of records. What a type's Validate throws,
// Error(kUsage) of a field, is an error of the file that was read. Keys that are in no row are refused unless the type
// has `static constexpr UnknownKeys kUnknownKeys = UnknownKeys::kPassedOver`.
#pragma once

#include <concepts>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/field.h"
#include "crosstalk/runtime/field_value.h"
#include "crosstalk/runtime/json.h"

#pragma GCC visibility push(default)
namespace crosstalk {

template <typename T>
concept Record = requires {
  { T::Fields() } -> std::convertible_to<FieldTable<T>>;
};

template <Record T>
const FieldTable<T>& TableOf() {
  static const FieldTable<T> table = T::Fields();
  return table;
}

template <Record T>
constexpr UnknownKeys UnknownKeysOf() {
  if constexpr (requires { T::kUnknownKeys; }) return T::kUnknownKeys;
  return UnknownKeys::kRefused;
}

template <Record T>
struct JsonForm<T> {
  static constexpr FieldType kType = FieldType::kObject;
  static Json Write(const T& record) { return FieldsToJson(TableOf<T>(), record); }
  static T Read(const std::string& key, const Json& json, const FieldOptions&) {
    return ReadPart(TableOf<T>(), key, json, UnknownKeysOf<T>());
  }
};

// Members that are there or not, {{"P_l", &T::P_l}, …} of the type's Names(): the list of those that are, ["P_l",
// "P_w"].
template <typename T>
requires requires(T value) { value.*T::Names()[0].second = true; }
struct JsonForm<T> {
  static constexpr FieldType kType = FieldType::kNames;
  static Json Write(const T& value) {
    Json there = Json::MakeArray();
    for (const auto& [name, member] : T::Names()) {
      if (value.*member) there.Append(name);
    }
    return there;
  }
  static T Read(const std::string& key, const Json& json, const FieldOptions&) {
    T read{};
    FieldOptions options;
    for (const auto& [name, member] : T::Names()) options.choices.push_back(name);
    const auto names = JsonForm<std::set<std::string>>::Read(key, json, options);
    CROSSTALK_CHECK_FIELD(names.size() == json.AsArray().size(), key, "has a name twice");
    for (const auto& [name, member] : T::Names()) read.*member = names.contains(name);
    return read;
  }
};

// Writes a record, or a list or an std::optional of anything that has a form.
template <typename T>
requires(
    Record<T> || requires { JsonForm<T>::kList; } || requires { JsonForm<T>::kOptional; }) Json ToJson(const T& value) {
  return JsonForm<T>::Write(value);
}

// Error(kData), "SOURCE: sessions.step: must be an integer, but is a string".
template <Record T>
T FromJson(const Json& json, const std::string& source) {
  T record = FieldsFromJson(TableOf<T>(), json, source, UnknownKeysOf<T>());
  if constexpr (requires { record.Validate(); }) {
    try {
      record.Validate();
    } catch (const Error& error) {
      Fail(ErrorKind::kData, source, ": ", error.what());
    }
  }
  return record;
}

template <Record T>
T ReadRecord(const std::string& path) {
  return FromJson<T>(ReadJsonFile(path), path);
}

// The members that are as the table has them; others stay as a new record has them.
template <Record T>
T WhatFits(const Json& json) {
  T record{};
  if (!json.is_object()) return record;
  for (const Field<T>& field : TableOf<T>()) {
    try {
      if (const Json* const value = FindValue(field, json)) field.set(record, *value);
    } catch (const Error&) {
    }
  }
  return record;
}

// What is written as a function of the record. Reading passes it over.
template <typename T, typename Function>
Field<T> MakeComputedField(std::string key, Function function, FieldOptions options = {}) {
  using Value = std::remove_cvref_t<std::invoke_result_t<Function, const T&>>;
  Field<T> field;
  field.key = std::move(key);
  field.type = JsonForm<Value>::kType;
  field.options = std::move(options);
  field.options.may_be_missing = true;
  field.member = -1;
  field.get = [function](const T& record) { return JsonForm<Value>::Write(std::invoke(function, record)); };
  field.set = [](T&, const Json&) {};
  return field;
}

// The same in every record: a format's name or number. Another one is refused.
template <typename T>
Field<T> MakeConstantField(std::string key, Json constant) {
  Field<T> field;
  field.key = key;
  field.type = constant.is_string() ? FieldType::kString : FieldType::kInt;
  field.member = -1;
  field.get = [constant](const T&) { return constant; };
  field.set = [key, constant, type = field.type](T&, const Json& json) {
    internal::CheckType(key, json, type);
    CROSSTALK_CHECK_FIELD(json == constant, key, "is ", Excerpt(json.Dump()), ", not ", constant.Dump(),
                          ": written by another version");
  };
  return field;
}

}  // namespace crosstalk
#pragma GCC visibility pop
