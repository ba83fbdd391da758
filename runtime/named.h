// Lists of things that have a `name`: the models, objectives and tasks that there are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

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
