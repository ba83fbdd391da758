// Small things done to text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crosstalk {

// The parts between separators, empty ones too: always one more than there are separators. Split("a,,b", ',') is
// {"a", "", "b"}, Split("", ',') is {""}.
inline std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace crosstalk
