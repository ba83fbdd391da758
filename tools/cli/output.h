// Where the command writes: results to standard output, everything else to standard error. On a terminal all of it is
// without the characters that would control it, which names of files and folders may have: only Bold's go through.
#pragma once

#include <string>
#include <string_view>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

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

}  // namespace crosstalk
