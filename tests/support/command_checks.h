// How a command ended and what it said on standard error: a test that expected something else fails at the caller's
// line, and shows both. With messages.h.
#pragma once

#include <gtest/gtest.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/messages.h"
#include "tests/support/run_command.h"

namespace crosstalk {

// It ended with this code and said each of `says`.
inline CommandResult ExpectExit(CommandResult result, int exit_code, const std::vector<std::string>& says = {},
                                std::source_location where = std::source_location::current()) {
  if (result.exit_code != exit_code) {
    ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line()))
        << "exit code " << result.exit_code << ", not " << exit_code << "\n"
        << result.errors;
  }
  testing::ExpectSays(result.errors, says, where);
  return result;
}

// It succeeded; a test whose command did not ends here.
inline CommandResult Succeeded(CommandResult result, std::source_location where = std::source_location::current()) {
  result = ExpectExit(std::move(result), 0, {}, where);
  if (result.exit_code != 0) throw std::runtime_error("the test needs a command that failed");
  return result;
}

}  // namespace crosstalk
