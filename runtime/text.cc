#include "crosstalk/runtime/text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

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
    // A word with more edits than every third letter is another word.
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

std::string Replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string replaced;
  for (size_t at = 0;;) {
    const size_t found = text.find(from, at);
    replaced += text.substr(at, found == std::string_view::npos ? found : found - at);
    if (found == std::string_view::npos) return replaced;
    replaced += to;
    at = found + from.size();
  }
}

std::string ShellQuoted(std::string_view word) { return "'" + Replaced(word, "'", "'\\''") + "'"; }

size_t Utf8Length(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) { return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u; };
  const auto tail = [&](size_t k) { return (byte(k) & 0xc0) == 0x80; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return tail(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    if (!tail(1) || !tail(2)) return 0;
    if (lead == 0xe0 && byte(1) < 0xa0) return 0;
    if (lead == 0xed && byte(1) >= 0xa0) return 0;
    return 3;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if (lead == 0xf0 && byte(1) < 0x90) return 0;
    if (lead == 0xf4 && byte(1) >= 0x90) return 0;
    return 4;
  }
  return 0;
}

size_t FindInvalidUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    uint64_t eight;  // plain ASCII goes by in words: corpora are checked here
    if (text.size() - i >= sizeof eight) {
      std::memcpy(&eight, text.data() + i, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        i += sizeof eight;
        continue;
      }
    }
    const size_t length = Utf8Length(text, i);
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

size_t CountUtf8(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !IsUtf8Continuation(c); }));
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text, i);
    valid += length == 0 ? std::string_view("\uFFFD") : text.substr(i, length);
    i += length == 0 ? 1 : length;
  }
  return valid;
}

namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int ValueOf(char digit) {
  if (digit >= 'A' && digit <= 'Z') return digit - 'A';
  if (digit >= 'a' && digit <= 'z') return digit - 'a' + 26;
  if (digit >= '0' && digit <= '9') return digit - '0' + 52;
  return digit == '+' ? 62 : digit == '/' ? 63 : -1;
}

}  // namespace

std::string EncodeBase64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k) {
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) text += i + k > bytes.size() ? '=' : kDigits[three >> (18 - 6 * k) & 63];
  }
  return text;
}

std::optional<std::string> DecodeBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  size_t digits = text.size();
  while (digits > 0 && text.size() - digits < 2 && text[digits - 1] == '=') --digits;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  int count = 0;  // of the low bits of `bits` that are not yet a byte
  for (size_t i = 0; i < digits; ++i) {
    const int value = ValueOf(text[i]);
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count);
    bits &= (1u << count) - 1;
  }
  if (bits != 0) return std::nullopt;
  return bytes;
}

}  // namespace crosstalk
