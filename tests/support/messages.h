// The words of an error: of one call, and of a table of bad inputs.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "gtest/gtest.h"

namespace crosstalk::testing {

// The caller's file and line, as the last parameter `Caller where = {}`. clang 14 has no std::source_location.
struct Caller {
  const char* file = __builtin_FILE();
  int line = __builtin_LINE();
};

// What the Error thrown by f() says. The test fails at `where` if nothing is thrown, or an Error of another kind.
template <typename F>
std::string MessageOf(const F& f, ErrorKind kind = ErrorKind::kUsage, Caller where = {}) {
  const auto fail = [&](const std::string& why) { ADD_FAILURE_AT(where.file, where.line) << why; };
  try {
    f();
  } catch (const Error& error) {
    if (error.kind() != kind) fail(std::string("an Error of another kind: ") + error.what());
    return error.what();
  }
  fail("nothing was thrown");
  return "";
}

inline bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// `text` says each of these; the test fails at `where` if not.
inline void ExpectSays(std::string_view text, const std::vector<std::string>& says, Caller where) {
  for (const std::string& part : says) {
    if (Contains(text, part)) continue;
    ADD_FAILURE_AT(where.file, where.line) << "said nothing of: " << part << "\n" << text;
  }
}

// The Error thrown by f() says each of these.
template <typename F>
void ExpectError(const F& f, ErrorKind kind, const std::vector<std::string>& says, Caller where = {}) {
  ExpectSays(MessageOf(f, kind, where), says, where);
}

// A row of a table of bad inputs: a name that is unique in its table, the input, and words that its error must have.
template <typename Input>
struct Refusal {
  std::string name;
  Input input;
  std::vector<std::string> words;
};

// `read(input)` throws an Error of `kind` with the words of its row, for every row. A failure names its row.
template <typename Input, typename Read>
void ExpectRefused(const std::vector<Refusal<Input>>& rows, const Read& read, ErrorKind kind = ErrorKind::kUsage,
                   Caller where = {}) {
  for (const Refusal<Input>& row : rows) {
    SCOPED_TRACE(row.name);
    ExpectError([&] { read(row.input); }, kind, row.words, where);
  }
}

// As above, with calls for inputs: {"a rank too many", [] { … }, {"rank"}}.
inline void ExpectRefused(const std::vector<Refusal<std::function<void()>>>& rows, ErrorKind kind = ErrorKind::kUsage,
                          Caller where = {}) {
  ExpectRefused(
      rows, [](const std::function<void()>& call) { call(); }, kind, where);
}

}  // namespace crosstalk::testing
