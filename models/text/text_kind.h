// What a file is that is given as text and is none: told by its first bytes, and by its name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace crosstalk {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // which a text of UTF-8 may begin with

enum class TextFormat { kPlain, kJsonl };

// Error(kData) that says what the file is and what to do with it, where its first bytes, or the end of its name, are of
// a kind that is no text: columns (Parquet, Arrow), what is packed otherwise than by gzip, PDF, UTF-16.
void RefuseIfNoText(const std::string& path, std::string_view head);

// The same of rows, in which only the user knows what the text is: CSV and TSV, by name or where all rows of `head`
// have the columns of a first line of names; a JSON list; JSON lines in a file whose name is another's. `head` is the
// beginning of a text that is to be read in that format.
void RefuseIfRows(const std::string& path, std::string_view head, TextFormat format);

// The whole of a file, unpacked where it is gzip, refused where it is no text. Error(kData) also where it is longer
// than `max_bytes`.
std::string ReadText(const std::string& path, uint64_t max_bytes);

}  // namespace crosstalk
