// Kinds of bytes in UTF-8 text. Whether it is UTF-8 at all: FindInvalidUtf8 of runtime/json.h.
#pragma once

namespace crosstalk {

// True for 10xxxxxx: a byte at which no character begins.
inline bool IsUtf8Continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Space, tab, line feed, carriage return.
inline bool IsAsciiSpace(char byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

}  // namespace crosstalk
