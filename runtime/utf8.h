// UTF-8: whether bytes are text, and where characters begin.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace crosstalk {

// Bytes of the UTF-8 character at text[i], 0 if it is not one (overlong, surrogate, beyond U+10FFFF, cut off).
size_t Utf8Length(std::string_view text, size_t i);

// The first byte of `text` that is not part of a UTF-8 character (overlong forms and surrogates are not), npos if none.
size_t FindInvalidUtf8(std::string_view text);

// The text with U+FFFD instead of each byte that is not part of a character.
std::string ReplaceInvalidUtf8(std::string_view text);

// True for 10xxxxxx: a byte at which no character begins.
inline bool IsUtf8Continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Space, tab, line feed, carriage return.
constexpr bool IsAsciiSpace(char byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }
constexpr bool IsAsciiDigit(char byte) { return byte >= '0' && byte <= '9'; }
constexpr bool IsAsciiLetter(char byte) { return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'); }

}  // namespace crosstalk
