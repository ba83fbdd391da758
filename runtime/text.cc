#include "crosstalk/runtime/text.h"

#include <algorithm>
#include <cstdint>
#include <utility>

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

namespace {

// How many letters were mistyped, left out, added or swapped with the next one.
size_t EditsBetween(std::string_view a, std::string_view b) {
  // Rows of the table of the distances between beginnings of the two.
  std::vector<size_t> before_last, last, row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1), last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string NearestName(std::string_view name, const std::vector<std::string>& names) {
  constexpr size_t kLongestName = 100;
  if (name.size() > kLongestName) return "";
  const size_t letters = name.size() - std::min(name.find_first_not_of('-'), name.size());
  std::string nearest;
  size_t fewest = SIZE_MAX;
  for (const std::string& candidate : names) {
    const size_t edits = EditsBetween(name, candidate);
    const bool begins = letters >= 3 && (candidate.starts_with(name) || name.starts_with(candidate));
    // Of more edits than every third letter it is another word.
    if (edits >= fewest || !(begins || edits <= std::max<size_t>(1, letters / 3))) continue;
    fewest = edits;
    nearest = candidate;
  }
  return nearest;
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& names) {
  const std::string nearest = NearestName(name, names);
  return nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?";
}

}  // namespace crosstalk
