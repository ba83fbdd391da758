// How a command ended and what it said on standard error: a test that expected something else fails at the caller's
// line, and shows both. With messages.h.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/messages.h"
#include "tests/support/run_command.h"

namespace crosstalk {

// It ended with this code and said each of `says`.
inline CommandResult ExpectExit(CommandResult result, int exit_code, const std::vector<std::string>& says = {},
                                testing::Caller where = {}) {
  if (result.exit_code != exit_code) {
    ADD_FAILURE_AT(where.file, where.line) << "exit code " << result.exit_code << ", not " << exit_code << "\n"
                                           << result.errors;
  }
  testing::ExpectSays(result.errors, says, where);
  return result;
}

// It succeeded; a test whose command did not ends here.
inline CommandResult Succeeded(CommandResult result, testing::Caller where = {}) {
  result = ExpectExit(std::move(result), 0, {}, where);
  if (result.exit_code != 0) throw std::runtime_error("the test needs a command that failed");
  return result;
}

}  // namespace crosstalk
