// Sessions of the command as text, what is typed and what is answered. A file tests/sessions/NAME.session:
//
//   What the sessions share: these steps run once, and each session begins with a copy of their folder.
//   $ crosstalk train --config tiny.json --out run
//   …
//
//   # A run is not overwritten
//   Prose, up to the next step.
//   $ crosstalk train --config tiny.json --out run
//   error: run: holds a run already; …
//   [2]
//
// A step is a line of sh after "$ ", further lines of it after "> ", what it prints on both streams, and its exit code
// where this is not 0; an empty line ends it. In an expected line "…" matches any text and "<n>" a number; alone, "…"
// matches any lines but the exit code. Empty lines and blanks at the ends of lines are not compared. No line has more
// than 120 columns. A step of one line, or the last line of its command, has its exit code and words that a line of its
// output has:
//
//   $ crosstalk trian => [2] did you mean train?
//
// Before its steps a file or a session may say what it needs: it is skipped where the line "? COMMAND" fails.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crosstalk {

struct SessionStep {
  size_t line = 0;  // of the file, from 1
  std::string command;
  std::vector<std::string> expected;  // the exit code is its last line
  size_t first = 0, end = 0;          // what was expected, among the file's lines from 0
  std::string before_arrow;           // of a step of one line: what is in this line too
};

struct Session {
  size_t line = 0;
  std::string title;
  std::string name;                // the title in letters and digits, unique in its file
  std::vector<std::string> needs;  // commands
  std::vector<SessionStep> steps;
};

struct SessionFile {
  std::string path;
  std::vector<std::string> lines;
  std::vector<std::string> needs;
  std::vector<SessionStep> set_up;
  std::vector<Session> sessions;
};

// An Error of kind kData names the file and the line.
SessionFile ParseSessions(const std::string& path, const std::string& text);

// The lines of an output, and its exit code where this is not 0, as a session says them.
std::vector<std::string> LinesOf(const std::string& output, int exit_code);

// A step of one line as it would be, with the last line of what it said.
std::string OneLine(const SessionStep& step, const std::vector<std::string>& lines);

bool LineMatches(std::string_view pattern, std::string_view line);

struct Comparison {
  bool equal = true;
  std::string difference;             // each line after "  ", "- " or "+ "
  std::vector<std::string> accepted;  // what would have been equal, with the patterns that match
};
Comparison Compare(const std::vector<std::string>& expected, const std::vector<std::string>& lines);

}  // namespace crosstalk
