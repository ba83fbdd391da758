// What the command writes and where: results to standard output, everything else to standard error; numbers as people
// read them, and tables of text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

// Where the command writes: results to standard output, everything else to standard error. On a terminal all of it is
// without the characters that would control it, which names of files and folders may have: only Bold's go through.

// True if standard error is a terminal that understands control sequences.
bool ErrorIsTerminal();

// Unless NO_COLOR is set to something.
bool ColourWanted();
// Bold on such a terminal, unless NO_COLOR is set to something; the plain text otherwise.
std::string Bold(const std::string& text);

// The text with U+FFFD for what a terminal would obey: C0 but line ends and tabs, delete, and C1 (U+0080 … U+009F). A
// carriage return is part of a line end, and left out.
std::string WithoutControls(std::string_view text);

// A line on the terminal that the next one of these replaces.
void ShowProgressLine(const std::string& line);
// Takes the progress line off the terminal, so that something else can be written there.
void ClearProgressLine();

// One line to standard error (after whatever progress line stands there).
void PrintMessage(const std::string& line);
template <typename... Parts>
void PrintMessage(const Parts&... parts) {
  PrintMessage(StrCat(parts...));
}

// "error: ", red where text can be bold, and the two parts of a message. Needs no memory: its message may be the lack
// of it.
void PrintError(const char* message, const char* rest);

// Whoever read standard output reads no more: `| head`. Nothing is left to be said, and the command ends with the exit
// code of a signal SIGPIPE.
struct ReaderIsGone {};

// Before the work whose result is to be the file `path`, which the option names: an error where it could not be put
// there at the end, for want of the folder or of permission, or since something else than a file is there. `begin`:
// Error(kUsage) also where the file that is there begins otherwise and is not empty, for a name that is mistyped must
// not cost a file.
void CheckOutput(const char* option, const std::string& path, std::string_view begin = {});

// To standard output. If it cannot be written whole, ReaderIsGone of a pipe, Error(kResource) for a full disk under a
// redirection, and Error(kFailure) for a closed one.
void PrintResult(const std::string& text);
// One line of JSON to standard output.
void PrintResult(const Json& value);

// Numbers as people read them.

// "43 s", "2 min 05 s", "3 h 12 min".
std::string DurationText(double seconds);
// "8 ms", "3 days", "180 years": an estimate has no more than two digits that mean anything.
std::string EstimateText(double seconds);
// "1,234,567".
std::string CountText(int64_t count);
// "1 step", "4,000 steps".
std::string StepsText(int64_t steps);
// 3.14159 with 2 digits is "3.14", at most 40 digits; 1e15 and more, which have none to show, are "1.23457e+15".
std::string FixedText(double value, int digits);
// "1.5 GB", powers of 1000.
std::string BytesText(int64_t bytes);
// 'a word' as a shell reads it back, whatever stands in it.
std::string ShellQuoted(const std::string& word);

// A table of texts, which files and pages show each in its way.

// A header, and rows of as many cells.
struct TextTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

// The cells are plain text.
std::string MarkdownTable(const TextTable& table);

// Plain text as it stands in a line of Markdown: what Markdown or the HTML within it would read as its own is escaped,
// and line ends are spaces.
std::string EscapeMarkdown(std::string_view text);

}  // namespace crosstalk
