// Small things done to text, with UTF-8 and Base64 among them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace crosstalk {

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
#pragma GCC visibility pop

namespace crosstalk {

// The text with `to` instead of each `from`, from the left.
std::string Replaced(std::string_view text, std::string_view from, std::string_view to);

// One word of a shell's command line, whatever is in it: 'it'\''s'.
std::string ShellQuoted(std::string_view word);

// UTF-8: whether bytes are text, and where characters begin.

// Bytes of the UTF-8 character at text[i], 0 if it is not one (overlong, surrogate, beyond U+10FFFF, cut off).
size_t Utf8Length(std::string_view text, size_t i);

// The first byte of `text` that is not part of a UTF-8 character (overlong forms and surrogates are not), npos if none.
size_t FindInvalidUtf8(std::string_view text);

// The text with U+FFFD instead of each byte that is not part of a character.
std::string ReplaceInvalidUtf8(std::string_view text);

// True for 10xxxxxx: a byte at which no character begins.
inline bool IsUtf8Continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// The characters of a text that is UTF-8.
size_t CountUtf8(std::string_view text);

// Space, tab, line feed, carriage return.
constexpr bool IsAsciiSpace(char byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }
constexpr bool IsAsciiDigit(char byte) { return byte >= '0' && byte <= '9'; }
constexpr bool IsAsciiLetter(char byte) { return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'); }

// Base64 (RFC 4648, section 4): bytes in JSON.

std::string EncodeBase64(std::string_view bytes);

// Nothing unless EncodeBase64 gives `text` for some bytes: padded, without line ends or other characters.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace crosstalk
