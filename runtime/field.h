// Field: one row of a configuration. Everything that is done to a configuration field by field (reading a command line
// or a file, writing a file, checking, comparing, documenting) is a loop over its table of fields, so that a new
// option is one row:
//
//   struct Config { int64_t d_model = 128; Classifier classifier = Classifier::kTied; };
//   const FieldTable<Config>& Fields() {
//     static const FieldTable<Config> table = {
//         MakeField("d_model", &Config::d_model, "N", "Width.", {.range = AtLeast(1)}),
//         MakeField("classifier", &Config::classifier, "", "tied: to the embedding.")};
//     return table;
//   }
//
// A value is a string, an integer, a floating-point number, true or false, an enum with names (enum_names.h), a list of
// these (std::vector, std::set), or an std::optional of one, where none means that the default follows from other
// fields. In files a value may also be values under names (std::map), a record, a list of records or
// a set of named members (runtime/record.h).
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/field_value.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"
#include "crosstalk/runtime/visibility.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// Which member of its configuration a field is: so that code can say &Config::d_model where it means the row. Of an
// abstract configuration, none.
using MemberId = std::ptrdiff_t;
template <typename Config, typename Place>
MemberId MemberOf(Place place) {
  if constexpr (std::is_default_constructible_v<Config>) {
    static Config sample;
    return reinterpret_cast<const char*>(&std::invoke(place, sample)) - reinterpret_cast<const char*>(&sample);
  } else {
    return -1;
  }
}
template <typename Config, typename Member>
MemberId MemberOf(Member Config::*member) {
  return MemberOf<Config, Member Config::*>(member);
}
template <typename Config, typename... Members>
std::vector<MemberId> MembersOf(Members Config::*... members) {
  return {MemberOf(members)...};
}

namespace internal {

// A member's type: its form in JSON, by the member's address.
struct MemberForm {
  FieldType type;
  bool list, optional;
  std::vector<std::string> (*names)();  // of an enum; null: of another
  Json (*write)(const void* member);
  void (*read)(const std::string& key, const Json& json, const FieldOptions& options, void* member);
};
template <typename Member>
constexpr MemberForm MakeMemberForm() {
  using Form = JsonForm<Member>;
  MemberForm form = {};
  form.type = Form::kType;
  if constexpr (requires { Form::kList; }) form.list = true;
  if constexpr (requires { Form::kOptional; }) form.optional = true;
  if constexpr (NamedEnum<OneOf<Member>>) form.names = &NamesOf<OneOf<Member>>;
  form.write = [](const void* member) { return Json(Form::Write(*static_cast<const Member*>(member))); };
  form.read = [](const std::string& key, const Json& json, const FieldOptions& options, void* member) {
    *static_cast<Member*>(member) = Form::Read(key, json, options);
  };
  return form;
}
template <typename Member>
inline constexpr MemberForm kMemberForm = MakeMemberForm<Member>();

// A place in configurations of one type, whatever its own type: rows are many, so that each has as little code as can
// be, and what is done with a place is code of its configuration alone.
struct MemberPlace {
  alignas(void*) std::byte place[4 * sizeof(void*)];
  void* (*of)(const std::byte* place, void* config);  // address of the member

  void* In(void* config) const { return of(place, config); }
};
template <typename Config, typename Place>
MemberPlace MakeMemberPlace(const Place& place) {
  static_assert(std::is_trivially_copyable_v<Place> && sizeof(Place) <= sizeof(MemberPlace::place));
  MemberPlace made = {{}, [](const std::byte* bytes, void* config) -> void* {
                        return &std::invoke(*reinterpret_cast<const Place*>(bytes), *static_cast<Config*>(config));
                      }};
  std::memcpy(made.place, &place, sizeof(Place));
  return made;
}

}  // namespace internal

// What a row says, whatever it is a row of.
struct FieldRow {
  std::string key;                      // "d_model": in files and errors; an option is spelt by the command
  std::string group = {};               // the title under which the help shows it
  FieldType type = FieldType::kObject;  // of a list: of each in it
  bool list = false;
  bool optional = false;
  std::vector<std::string> choices = {};
  FieldOptions options = {};
  MemberId member = 0;

 protected:
  CROSSTALK_LOCAL void Describe(std::string name, const internal::MemberForm& form, FieldOptions with) {
    key = std::move(name);
    type = form.type;
    list = form.list;
    optional = form.optional;
    options = std::move(with);
    choices = form.names != nullptr ? form.names() : options.choices;
    if (type == FieldType::kString && !choices.empty()) type = FieldType::kChoice;
  }
};

template <typename Config>
struct Field : FieldRow {
  Field() = default;
  explicit Field(FieldRow row) : FieldRow(std::move(row)) {}
  // {"d_model", &Config::d_model, {.range = AtLeast(1)}}. `place` is a pointer to a member, or anything that can be
  // called with a configuration and gives a reference into it.
  template <std::invocable<Config&> Place>
  Field(std::string name, Place place, FieldOptions with = {}) {
    using Member = std::remove_cvref_t<std::invoke_result_t<Place, Config&>>;
    Describe(std::move(name), internal::kMemberForm<Member>, std::move(with));
    Bind(internal::kMemberForm<Member>, internal::MakeMemberPlace<Config>(place));
  }

  std::function<Json(const Config&)> get;  // null: none
  // Error(kUsage) with the key as its field where the value is of another type, out of range or no choice.
  std::function<void(Config&, const Json&)> set;

 private:
  void Bind(const internal::MemberForm& form, const internal::MemberPlace& place) {
    member = MemberOf<Config>([&place](Config& config) -> char& { return *static_cast<char*>(place.In(&config)); });
    get = [&form, place](const Config& config) { return form.write(place.In(const_cast<Config*>(&config))); };
    set = [&form, place, key = key, options = options](Config& config, const Json& json) {
      form.read(key, json, options, place.In(&config));
    };
  }
};

template <typename Config>
using FieldTable = std::vector<Field<Config>>;

// The place of a member of a member.
template <typename Config, typename Part, typename Member>
auto Within(Part Config::*part, Member Part::*member) {
  return [part, member](Config& config) -> Member& { return config.*part.*member; };
}

// A row that the help shows: the value's name there, and sentences.
template <typename Config, typename Member>
Field<Config> MakeField(std::string key, Member Config::*member, const char* placeholder, std::string help,
                        FieldOptions options = {}) {
  options.placeholder = placeholder;
  options.help = std::move(help);
  return {std::move(key), member, std::move(options)};
}

// The fields of a part of a configuration as fields of the whole.
template <typename Config, typename Part>
FieldTable<Config> FieldsOfPart(const FieldTable<Part>& parts, Part Config::*part) {
  FieldTable<Config> fields;
  for (const Field<Part>& inner : parts) {
    Field<Config> field{FieldRow(inner)};
    field.member += MemberOf<Config>(part);
    field.get = [get = inner.get, part](const Config& config) { return get(config.*part); };
    field.set = [set = inner.set, part](Config& config, const Json& value) { set(config.*part, value); };
    fields.push_back(std::move(field));
  }
  return fields;
}

// The rows under one title of the help.
template <typename Config>
FieldTable<Config> Grouped(const char* group, FieldTable<Config> rows) {
  for (Field<Config>& row : rows) row.group = group;
  return rows;
}

template <typename Config, typename... More>
FieldTable<Config> Joined(FieldTable<Config> first, FieldTable<Config> second, More... more) {
  std::move(second.begin(), second.end(), std::back_inserter(first));
  if constexpr (sizeof...(more) > 0) return Joined(std::move(first), std::move(more)...);
  return first;
}

// {"d_model": 128, …} in the table's order.
template <typename Config>
Json FieldsToJson(const FieldTable<Config>& table, const Config& config) {
  const Config standard{};
  Json json = Json::MakeObject();
  for (const Field<Config>& field : table) {
    Json value = field.get(config);
    if (field.options.only_if_set && value == field.get(standard)) continue;
    if (field.options.spread) {
      for (const auto& [key, one] : value.AsObject()) json.Set(key, one);
    } else {
      json.Set(field.key, std::move(value));
    }
  }
  return json;
}

// A value as a file in `folder` means it: a path that is not absolute, and is none of the row's `not_paths`, from
// there.
Json ValueIn(const std::string& folder, const FieldOptions& options, const Json& value);

// Whether a file, or a host's options, mean the field by that key: its own, or a former one.
template <typename Config>
bool IsKeyOf(const Field<Config>& field, std::string_view key) {
  return key == field.key || (*field.options.former_key != '\0' && key == field.options.former_key);
}
// Its value in an object of JSON; null if it has none. Error(kUsage) of the field where it has two.
template <typename Config>
const Json* FindValue(const Field<Config>& field, const Json& json) {
  const Json* found = nullptr;
  for (const auto& [key, value] : json.AsObject()) {
    if (!IsKeyOf(field, key)) continue;
    CROSSTALK_CHECK_FIELD(found == nullptr, field.key, "is there twice, also as ", field.options.former_key);
    found = &value;
  }
  return found;
}

// What is said of a configuration: an object of JSON, by the keys of its fields. What is not said is as in whatever it
// is laid over, so that a configuration is its defaults, over these those of an origin, and over these what is given.
class Given {
 public:
  // Error(kUsage) unless it is an object.
  explicit Given(Json object);

  bool Has(const std::string& key) const { return object_.Find(key) != nullptr; }
  // `base` with the fields that are given. Error(kUsage) of the field for a value that it does not take.
  template <typename Config>
  Config Over(const FieldTable<Config>& table, Config base = {}) const {
    const Json::Object& members = object_.AsObject();
    for (const Field<Config>& field : table) {
      known_.push_back(field.key);
      for (size_t i = 0; i < members.size(); ++i) {
        if (!IsKeyOf(field, members[i].first)) continue;
        FindValue(field, object_);  // once
        field.set(base, members[i].second);
        read_[i] = true;
      }
    }
    return base;
  }
  // Error(kUsage) of the first key that no table had so far, with the nearest of theirs.
  void CheckAllRead() const;

 private:
  Json object_;
  mutable std::vector<bool> read_;
  mutable std::vector<std::string> known_;  // keys of the tables so far
};
enum class UnknownKeys { kRefused, kPassedOver };

// Sets what an object of JSON says. Every key of the table must be there, except rows that may be missing, and no
// other unless those are passed over. Error(kUsage) of the field at fault.
template <typename Config>
void SetFields(const FieldTable<Config>& table, const Json& json, Config& config,
               UnknownKeys unknown = UnknownKeys::kRefused) {
  for (const Field<Config>& field : table) {
    const Json* const value = FindValue(field, json);
    if (value == nullptr && (field.options.may_be_missing || field.options.only_if_set)) continue;
    CROSSTALK_CHECK_FIELD(value != nullptr, field.key, "is missing");
    field.set(config, *value);
  }
  if (unknown == UnknownKeys::kPassedOver) return;
  for (const auto& member : json.AsObject()) {
    const auto is_it = [&member](const Field<Config>& field) { return IsKeyOf(field, member.first); };
    CROSSTALK_CHECK_FIELD(std::any_of(table.begin(), table.end(), is_it), Excerpt(member.first),
                          "is not a key that is known here");
  }
}

// The configuration that a file holds. Errors are Error(kData) that begin with `source`.
template <typename Config>
Config FieldsFromJson(const FieldTable<Config>& table, const Json& json, const std::string& source,
                      UnknownKeys unknown = UnknownKeys::kRefused) {
  if (!json.is_object()) Fail(ErrorKind::kData, source, ": must be an object, but is ", Name(json.type()));
  Config config{};
  try {
    SetFields(table, json, config, unknown);
  } catch (const Error& error) {
    Fail(ErrorKind::kData, source, ": ", error.what());
  }
  return config;
}

// An object that is the value of `key`. Errors name the field by its path, "tokens.pad".
template <typename Part>
Part ReadPart(const FieldTable<Part>& table, const std::string& key, const Json& json,
              UnknownKeys unknown = UnknownKeys::kRefused) {
  internal::CheckType(key, json, FieldType::kObject);
  Part read{};
  try {
    SetFields(table, json, read, unknown);
    if constexpr (requires { read.Validate(); }) read.Validate();
  } catch (const Error& error) {
    const bool begins_with_it = std::string_view(error.what()).starts_with(error.field() + ": ");
    const std::string path = StrCat(key, ".", error.field());
    throw Error(error.kind(), StrCat(begins_with_it ? key + "." : path + ": ", error.what()), path);
  }
  return read;
}

// Ranges and choices of every field, and whether a file can keep its text. Error(kUsage) of the first that is at fault.
template <typename Config>
void CheckFields(const FieldTable<Config>& table, const Config& config) {
  Config scratch;
  for (const Field<Config>& field : table) {
    const Json value = field.get(config);
    field.set(scratch, value);
    if (value.is_string()) internal::CheckKept(field.key, value.AsString());
  }
}

// Whether what the field's `read_by` names reads it. If that has no value yet, it may.
template <typename Config>
bool IsRead(const FieldTable<Config>& table, const Config& config, const Field<Config>& field) {
  const FieldReaders& readers = field.options.read_by;
  for (const Field<Config>& other : table) {
    if (readers.choices.empty() || other.key != readers.key) continue;
    const Json choice = other.get(config);
    return choice.is_null() || std::count(readers.choices.begin(), readers.choices.end(), choice.AsString()) > 0;
  }
  return true;
}

// A field that nobody reads, by its `read_by`, and that is not as the defaults have it would be dropped without a word:
// Error(kUsage), "weight_decay: optimizer adafactor has no use for it; it is for adamw, lamb".
template <typename Config>
void CheckFieldsAreRead(const FieldTable<Config>& table, const Config& config) {
  const Config defaults;
  for (const Field<Config>& field : table) {
    if (IsRead(table, config, field) || field.get(config) == field.get(defaults)) continue;
    const FieldReaders& readers = field.options.read_by;
    for (const Field<Config>& other : table) {
      if (other.key != readers.key) continue;
      FailField(ErrorKind::kUsage, field.key, readers.key, " ", other.get(config).AsString(),
                " has no use for it; it is for ", Join(readers.choices, ", "));
    }
  }
}

// "d_model: 128 here, 256 there" for each field that affects the result and differs.
template <typename Config>
std::vector<Message> FieldDifferences(const FieldTable<Config>& table, const Config& here, const Config& there) {
  std::vector<Message> differences;
  for (const Field<Config>& field : table) {
    if (field.options.affects_result == AffectsResult::kNo) continue;
    const Json a = field.get(here), b = field.get(there);
    if (a == b) continue;
    differences.emplace_back(FieldName{field.key}, ": ", Excerpt(a.Dump()), " here, ", Excerpt(b.Dump()), " there");
  }
  return differences;
}

}  // namespace crosstalk
#pragma GCC visibility pop
