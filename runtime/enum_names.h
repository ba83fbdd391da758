// One table of names for an enum, from which printing, parsing and the list in an error are made:
//
//   enum class Classifier { kTied, kUntied };
//   template <>
//   struct EnumNames<Classifier> {
//     static constexpr EnumName<Classifier> kTable[] = {{Classifier::kTied, "tied"}, {Classifier::kUntied, "untied"}};
//   };
//
//   Name(Classifier::kTied)                        // "tied"
//   ParseName<Classifier>("classifier", "tide")    // Error: classifier: "tide" is none of tied, untied; did you mean …
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

#pragma GCC visibility push(default)
namespace crosstalk {

template <typename E>
struct EnumName {
  E value;
  const char* name;  // as on a command line and in files: lower case, words joined by dashes
};

// Specialised beside each enum that has names.
template <typename E>
struct EnumNames;

template <typename E>
concept NamedEnum = requires {
  EnumNames<E>::kTable;
};

template <NamedEnum E>
const char* Name(E value) {
  for (const EnumName<E>& entry : EnumNames<E>::kTable) {
    if (entry.value == value) return entry.name;
  }
  CROSSTALK_DCHECK(false);
  return "?";
}

// In the table's order.
template <NamedEnum E>
std::vector<std::string> NamesOf() {
  std::vector<std::string> names;
  for (const EnumName<E>& entry : EnumNames<E>::kTable) names.emplace_back(entry.name);
  return names;
}

// Error(kind) of `field` that lists the names and suggests the nearest, for any other text.
template <NamedEnum E>
E ParseName(std::string_view field, std::string_view text, ErrorKind kind = ErrorKind::kUsage) {
  for (const EnumName<E>& entry : EnumNames<E>::kTable) {
    if (text == entry.name) return entry.value;
  }
  const std::vector<std::string> names = NamesOf<E>();
  FailField(kind, field, Quoted(text), " is none of ", Join(names, ", "), DidYouMean(text, names));
}

}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk {

// Lists of things that have a `name`: the models, objectives and tasks that there are.

// In the list's order.
template <typename T>
std::vector<std::string> NamesIn(const std::vector<T>& list) {
  std::vector<std::string> names;
  for (const T& one : list) names.emplace_back(one.name);
  return names;
}

// Error(kUsage) of `field` that lists the names and suggests the nearest, for any other.
template <typename T>
const T& FindNamed(std::string_view field, std::string_view name, const std::vector<T>& list) {
  for (const T& one : list) {
    if (name == one.name) return one;
  }
  const std::vector<std::string> names = NamesIn(list);
  FailField(ErrorKind::kUsage, field, Quoted(name), " is none of ", Join(names, ", "), DidYouMean(name, names));
}

}  // namespace crosstalk
