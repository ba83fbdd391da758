#include "tests/sessions/session.h"

#include <algorithm>
#include <set>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

namespace {

constexpr std::string_view kAny = "…", kNumber = "<n>", kAnswer = " => ";
constexpr size_t kColumns = 120;

bool IsExitCode(std::string_view line) {
  return line.size() > 2 && line.front() == '[' && line.back() == ']' && line[1] != '0' &&
         std::all_of(line.begin() + 1, line.end() - 1, IsAsciiDigit);
}

// "A run's loss is shown" as ARunsLossIsShown.
std::string NameOf(std::string_view title) {
  std::string name;
  bool begins = true;
  for (const char c : title) {
    const bool letter = IsAsciiLetter(c);
    if (letter || IsAsciiDigit(c)) name += begins && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    if (c != '\'') begins = !letter;
  }
  return name;
}

std::string FittingLine(const std::string& line) {
  if (CountUtf8(line) <= kColumns) return line;
  size_t end = 0;
  for (size_t columns = 0; columns < kColumns - 1; ++columns) end += Utf8Length(line, end);
  return line.substr(0, end).append(kAny);
}

// The bytes of a number at the beginning of the text: "-1,234.5e-6".
size_t NumberLength(std::string_view text) {
  size_t i = text.starts_with('-') ? 1 : 0;
  const auto digits = [&](bool commas) {
    const size_t from = i;
    while (i < text.size() && (IsAsciiDigit(text[i]) || (commas && i > from && text[i] == ',' && i + 1 < text.size() &&
                                                         IsAsciiDigit(text[i + 1])))) {
      ++i;
    }
    return i > from;
  };
  if (!digits(true)) return 0;
  size_t whole = i;
  if (i < text.size() && text[i] == '.' && (++i, digits(false))) whole = i;
  i = whole;
  if (i < text.size() && text[i] == 'e') {
    if (++i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    if (digits(false)) whole = i;
  }
  return whole;
}

// What is expected after the arrow: "[2] WORDS".
std::vector<std::string> ExpectedInOneLine(std::string words) {
  const size_t end = words.find(']') + 1;
  const std::string code = IsExitCode(words.substr(0, end)) ? words.substr(0, end) : "";
  if (!code.empty()) words.erase(0, end + (end < words.size() ? 1 : 0));
  std::vector<std::string> expected = {std::string(kAny)};
  if (!words.empty()) expected.insert(expected.end(), {StrCat(kAny, words, kAny), std::string(kAny)});
  if (!code.empty()) expected.push_back(code);
  return expected;
}

// A line of an output as an expected one that matches it.
std::string AsExpected(std::string line) {
  if (line.starts_with("$ ") || line.starts_with("> ") || line.starts_with("# ") || line.starts_with("? ") ||
      IsExitCode(line)) {
    line.replace(0, 1, kAny);
  }
  return FittingLine(line);
}

}  // namespace

SessionFile ParseSessions(const std::string& path, const std::string& text) {
  SessionFile file = {.path = path, .lines = Split(text, '\n'), .needs = {}, .set_up = {}, .sessions = {}};
  size_t i = 0;
  const auto require = [&](bool condition, const std::string& problem) {
    if (!condition) throw Error(ErrorKind::kData, StrCat(path, ":", i + 1, ": ", problem));
  };
  std::set<std::string> names;
  std::vector<SessionStep>* steps = &file.set_up;
  enum { kProse, kCommand, kOutput, kEnded } state = kProse;
  for (; i < file.lines.size(); ++i) {
    const std::string& line = file.lines[i];
    require(FindInvalidUtf8(line) == std::string::npos, "is not UTF-8 text");
    require(CountUtf8(line) <= kColumns, StrCat("has more than ", kColumns, " columns"));
    const bool control =
        std::any_of(line.begin(), line.end(), [](unsigned char c) { return (c < ' ' && c != '\t') || c == '\x7F'; });
    require(!control, "has a control character");
    if (line.starts_with("# ")) {
      require(file.sessions.empty() || !steps->empty(), "the session before this has no step: \"$ …\"");
      const std::string name = NameOf(line);
      require(!name.empty(), "a title needs letters");
      require(names.insert(name).second, StrCat("a session above is called ", name, " too"));
      file.sessions.push_back({.line = i + 1, .title = line.substr(2), .name = name, .needs = {}, .steps = {}});
      steps = &file.sessions.back().steps;
      state = kProse;
    } else if (line.starts_with("$ ") || line.starts_with("> ") || line == ">") {
      const bool begins = line.starts_with("$ ");
      require(begins || state == kCommand, "\"> \" goes on with a command, and there is none above");
      if (begins) steps->push_back({.line = i + 1, .command = "", .expected = {}, .before_arrow = ""});
      SessionStep& step = steps->back();
      const size_t arrow = line.find(kAnswer);
      step.command += (begins ? "" : "\n") + line.substr(std::min(line.size(), size_t{2}), arrow - 2);
      step.first = step.end = i + 1;
      state = kCommand;
      if (arrow == std::string::npos) continue;
      step.first = i;
      step.before_arrow = line.substr(0, arrow);
      step.expected = ExpectedInOneLine(line.substr(arrow + kAnswer.size()));
      state = kEnded;
    } else if (line.starts_with("? ")) {
      require(steps->empty(), "\"? \" comes before the steps");
      (file.sessions.empty() ? file.needs : file.sessions.back().needs).push_back(line.substr(2));
    } else if (line.empty()) {
      state = kProse;
    } else if (state == kProse) {
      require(!IsExitCode(line), "an exit code ends a step, and there is none above");
    } else {
      require(state != kEnded, "this step has ended: an empty line, \"$ …\" or \"# …\" comes after it");
      require(line != "[0]", "the exit code 0 is not written");
      steps->back().expected.push_back(line);
      steps->back().end = i + 1;
      state = IsExitCode(line) ? kEnded : kOutput;
    }
  }
  require(!file.sessions.empty(), "there is no session: \"# Title\"");
  require(!steps->empty(), "the last session has no step: \"$ …\"");
  return file;
}

std::vector<std::string> LinesOf(const std::string& output, int exit_code) {
  std::vector<std::string> lines;
  for (std::string& line : Split(output, '\n')) {
    while (!line.empty() && IsAsciiSpace(line.back())) line.pop_back();
    if (!line.empty()) lines.push_back(std::move(line));
  }
  if (exit_code != 0) lines.push_back(StrCat("[", exit_code, "]"));
  return lines;
}

std::string OneLine(const SessionStep& step, const std::vector<std::string>& lines) {
  const bool failed = !lines.empty() && IsExitCode(lines.back());
  const size_t said = lines.size() - (failed ? 1 : 0);
  return FittingLine(StrCat(step.before_arrow, kAnswer, failed ? lines.back() : "", failed && said > 0 ? " " : "",
                            said > 0 ? lines[said - 1] : ""));
}

bool LineMatches(std::string_view pattern, std::string_view line) {
  while (!pattern.empty()) {
    if (pattern.starts_with(kAny)) {
      pattern.remove_prefix(kAny.size());
      for (size_t i = 0; i <= line.size(); ++i) {
        if (LineMatches(pattern, line.substr(i))) return true;
      }
      return false;
    }
    const size_t number = pattern.starts_with(kNumber) ? NumberLength(line) : 0;
    if (number == 0 && (line.empty() || pattern.front() != line.front())) return false;
    pattern.remove_prefix(number > 0 ? kNumber.size() : 1);
    line.remove_prefix(std::max(number, size_t{1}));
  }
  return line.empty();
}

// The cheapest way from one to the other. To replace a line costs less than to drop it where "…" would take what is
// there instead: what has changed is shown as changed.
Comparison Compare(const std::vector<std::string>& expected, const std::vector<std::string>& lines) {
  const size_t m = expected.size(), n = lines.size();
  constexpr int kInsert = 4, kDrop = 8, kReplace = 7, kReplaceAlike = 6;
  std::vector<std::vector<int>> costs(m + 1, std::vector<int>(n + 1));  // of what follows
  enum Move { kEnd, kMatch, kSkipPattern, kSkipLine, kReplaced, kDropped, kInserted };
  std::vector<std::vector<Move>> moves(m + 1, std::vector<Move>(n + 1, kEnd));
  for (size_t i = m + 1; i-- > 0;) {
    const bool any = i < m && expected[i] == kAny;
    for (size_t j = n + 1; j-- > 0;) {
      if (i == m && j == n) continue;
      int least = 0;
      Move& move = moves[i][j];
      const auto offer = [&](bool possible, int cost, size_t to_i, size_t to_j, Move by) {
        if (!possible || (move != kEnd && cost + costs[to_i][to_j] >= least)) return;
        least = cost + costs[to_i][to_j];
        move = by;
      };
      if (any) {
        offer(true, 0, i + 1, j, kSkipPattern);
        offer(j < n && (j + 1 < n || !IsExitCode(lines[j])), 0, i, j + 1, kSkipLine);
        offer(j < n, kInsert, i, j + 1, kInserted);
      } else {
        const bool both = i < m && j < n;
        offer(both && LineMatches(expected[i], lines[j]), 0, i + 1, j + 1, kMatch);
        const bool alike = both && expected[i].substr(0, 6) == lines[j].substr(0, 6);
        offer(both, alike ? kReplaceAlike : kReplace, i + 1, j + 1, kReplaced);
        offer(i < m, kDrop, i + 1, j, kDropped);
        offer(j < n, kInsert, i, j + 1, kInserted);
      }
      costs[i][j] = least;
    }
  }
  Comparison result = {.equal = costs[0][0] == 0, .difference = "", .accepted = {}};
  const auto show = [&](const char* sign, const std::string& line) {
    result.difference.append(sign).append(line).append("\n");
  };
  for (size_t i = 0, j = 0; moves[i][j] != kEnd;) {
    const Move move = moves[i][j];
    if (move == kMatch) show("  ", lines[j]);
    if (move == kSkipPattern) show("  ", expected[i]);
    if (move == kReplaced || move == kDropped) show("- ", expected[i]);
    if (move == kReplaced || move == kInserted) show("+ ", lines[j]);
    if (move == kMatch || move == kSkipPattern) result.accepted.push_back(expected[i]);
    if (move == kReplaced || move == kInserted) {
      // The exit code stays one.
      result.accepted.push_back(j + 1 == n && IsExitCode(lines[j]) ? lines[j] : AsExpected(lines[j]));
    }
    if (move != kSkipLine && move != kInserted) ++i;
    if (move != kSkipPattern && move != kDropped) ++j;
  }
  return result;
}

}  // namespace crosstalk
