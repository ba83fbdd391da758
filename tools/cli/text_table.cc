#include "tools/cli/text_table.h"

namespace crosstalk {

std::string MarkdownTable(const TextTable& table) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (const std::string& cell : cells) text += " " + EscapeMarkdown(cell) + " |";
    return text + "\n";
  };
  std::string text = line(table.header) + "|";
  for (size_t i = 0; i < table.header.size(); ++i) text += "---|";
  text += "\n";
  for (const std::vector<std::string>& row : table.rows) text += line(row);
  return text;
}

std::string EscapeMarkdown(std::string_view text) {
  constexpr std::string_view kMarks = "\\`*[]|";
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else {
      if (kMarks.find(c) != std::string_view::npos) escaped += '\\';
      escaped += c == '\n' || c == '\r' ? ' ' : c;
    }
  }
  return escaped;
}

}  // namespace crosstalk
