// Where the command writes: results to standard output, everything else to standard error.
#pragma once

#include <string>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

// One line to standard error (after whatever progress line stands there).
void PrintMessage(const std::string& line);
template <typename... Parts>
void Say(const Parts&... parts) {
  PrintMessage(StrCat(parts...));
}

// To standard output; Error(kResource) if it cannot be written whole (a full disk behind a redirection).
void PrintResult(const std::string& text);
// One line of JSON to standard output.
void PrintResult(const Json& value);

}  // namespace crosstalk
