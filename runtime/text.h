// Small things done to text.
#pragma once

#include <cstddef>
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

// Text from outside as a message shows it: on one line, control characters and bytes that are not UTF-8 as \n, \t and
// \x1b, and no more than its first `most` bytes: abc… (90000000 bytes).
std::string Excerpt(std::string_view text, size_t most = 100);
// The same in double quotes.
std::string Quoted(std::string_view text);

// The entry of `names` that the fewest edits make of `name`: a letter mistyped, left out, added, or swapped with the
// next. Empty if that is more than every third letter and neither begins with the other, or if `name` is much longer
// than names are.
std::string NearestName(std::string_view name, const std::vector<std::string>& names);

// "; did you mean \"talking\"?", or nothing: the end of an error about a name that is not known.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& names);

}  // namespace crosstalk
