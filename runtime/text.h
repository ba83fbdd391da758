// Small things done to text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// The parts between separators, empty ones too: always one more than there are separators. Split("a,,b", ',') is
// {"a", "", "b"}, Split("", ',') is {""}.
std::vector<std::string> Split(std::string_view text, char separator);

// The inverse: Join({"a", "b"}, ", ") is "a, b".
std::string Join(const std::vector<std::string>& parts, std::string_view separator);

// The entry of `names` with the least edit distance to `name`; empty if none is near enough to be meant.
std::string NearestName(std::string_view name, const std::vector<std::string>& names);

// "; did you mean \"talking\"?", or nothing: the end of an error about a name that is not known.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& names);

}  // namespace crosstalk
