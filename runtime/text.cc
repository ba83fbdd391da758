#include "crosstalk/runtime/text.h"

#include <algorithm>
#include <cstdint>

#include "crosstalk/runtime/utf8.h"

namespace crosstalk {

std::vector<std::string> Split(std::string_view text, char separator) {
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

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) joined += separator;
    joined += parts[i];
  }
  return joined;
}

namespace {

// True for the control characters: U+0000 … U+001F, U+007F, and U+0080 … U+009F, which are 0xc2 and a byte below 0xa0.
bool IsControl(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  return first < 0x20 || first == 0x7f ||
         (character.size() == 2 && first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0);
}

std::string Escaped(std::string_view character) {
  constexpr char kHex[] = "0123456789abcdef";
  if (character == "\n") return "\\n";
  if (character == "\t") return "\\t";
  std::string escaped;
  for (const char c : character) {
    const auto byte = static_cast<unsigned char>(c);
    ((escaped += "\\x") += kHex[byte >> 4]) += kHex[byte & 15];
  }
  return escaped;
}

}  // namespace

std::string Excerpt(std::string_view text, size_t most) {
  std::string excerpt;
  for (size_t i = 0; i < text.size();) {
    const size_t valid = Utf8Length(text, i);
    const std::string_view character = text.substr(i, std::max<size_t>(1, valid));
    if (i + character.size() > most) return excerpt + "… (" + std::to_string(text.size()) + " bytes)";
    excerpt += valid == 0 || IsControl(character) ? Escaped(character) : std::string(character);
    i += character.size();
  }
  return excerpt;
}

std::string Quoted(std::string_view text) { return "\"" + Excerpt(text) + "\""; }

std::string NearestName(std::string_view name, const std::vector<std::string>& names) {
  constexpr size_t kLongestName = 100;
  if (name.size() > kLongestName) return "";
  std::string nearest;
  size_t nearest_distance = SIZE_MAX;
  for (const std::string& candidate : names) {
    // Levenshtein's distance, one row of the table at a time.
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j <= candidate.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= name.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j <= candidate.size(); ++j) {
        const size_t replaced = diagonal + (name[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
      }
    }
    if (row.back() < nearest_distance) {
      nearest_distance = row.back();
      nearest = candidate;
    }
  }
  return nearest_distance <= std::max<size_t>(2, name.size() / 2) ? nearest : "";
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& names) {
  const std::string nearest = NearestName(name, names);
  return nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?";
}

}  // namespace crosstalk
