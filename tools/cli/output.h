// What the command writes and where: results to standard output, everything else to standard error; numbers as people
// read them, and tables of text.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
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
// Error(kUsage) where `path`, which the option names, is the file that is read.
void CheckNotInput(const char* option, const std::string& path, const std::string& input);

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

// Tables: a list of columns over rows of any type, printed for programs as CSV or JSON, and for people as Markdown or
// HTML (page/page.h). A new column is one line in its list:
//
//   const Columns<RowPlan> columns = {{"cells", "cells", &RowPlan::cells},
//                                     {"memory_bytes", "memory", Shown(BytesText, &RowPlan::memory_bytes)}};
//   MarkdownTable(TextOf(columns, plan.rows));  JsonOf(columns, plan.rows);

// What stands in a row's column: JSON for programs, null if it is missing, and a text for people.
struct TableValue {
  Json json;
  std::string text;

  TableValue() = default;
  TableValue(Json json, std::string text = "") : json(std::move(json)), text(std::move(text)) {}
  TableValue(const std::string& text) : TableValue(text, text) {}
  TableValue(int64_t count) : TableValue(count, StrCat(count)) {}
};
template <typename T, typename Format>
TableValue ValueOf(const std::optional<T>& value, const Format& format) {
  return value ? TableValue(*value, format(*value)) : TableValue();
}
// A column of a member of the row, or of what a function gives for it: a number, or none.
template <typename Format, typename Member>
auto Shown(Format format, Member member) {
  return [=](const auto& row) { return ValueOf(std::optional(std::invoke(member, row)), format); };
}

enum class ForPrograms { kAll, kCsv, kJson };

template <typename Row>
struct Column {
  std::string key;      // for programs; empty: only people see it
  std::string heading;  // for people; empty: only programs see it
  std::function<TableValue(const Row&)> value;
  ForPrograms programs = ForPrograms::kAll;
};
template <typename Row>
using Columns = std::vector<Column<Row>>;

// What people see: a header, and rows of as many cells, which are plain text.
struct TextTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};
std::string MarkdownTable(const TextTable& table);

// A line of CSV, whose cells are quoted where they have to be. A number has as many digits as tell it from all others.
std::string CsvLine(const std::vector<Json>& cells);

template <typename Row>
TextTable TextOf(const Columns<Row>& columns, const std::vector<Row>& rows) {
  TextTable table;
  table.rows.resize(rows.size());
  for (const Column<Row>& column : columns) {
    if (column.heading.empty()) continue;
    table.header.push_back(column.heading);
    for (size_t i = 0; i < rows.size(); ++i) table.rows[i].push_back(column.value(rows[i]).text);
  }
  return table;
}

// {KEY: value, …} of a row, and the list of all rows.
template <typename Row>
Json JsonOf(const Columns<Row>& columns, const Row& row) {
  Json json = Json::MakeObject();
  for (const Column<Row>& column : columns) {
    if (!column.key.empty() && column.programs != ForPrograms::kCsv) json.Set(column.key, column.value(row).json);
  }
  return json;
}
template <typename Row>
Json JsonOf(const Columns<Row>& columns, const std::vector<Row>& rows) {
  Json list = Json::MakeArray();
  for (const Row& row : rows) list.Append(JsonOf(columns, row));
  return list;
}

template <typename Row>
std::string CsvOf(const Columns<Row>& columns, const std::vector<Row>& rows) {
  const auto line = [&](const auto& cell) {
    std::vector<Json> cells;
    for (const Column<Row>& column : columns) {
      if (!column.key.empty() && column.programs != ForPrograms::kJson) cells.push_back(cell(column));
    }
    return CsvLine(cells);
  };
  std::string text = line([](const Column<Row>& column) -> Json { return column.key; });
  for (const Row& row : rows) text += line([&](const Column<Row>& column) { return column.value(row).json; });
  return text;
}

// Plain text as it stands in a line of Markdown: what Markdown or the HTML within it would read as its own is escaped,
// and line ends are spaces.
std::string EscapeMarkdown(std::string_view text);

}  // namespace crosstalk
