#include "tools/text_table.h"

#include "crosstalk/runtime/text.h"

namespace crosstalk {

std::string MarkdownTable(const TextTable& table) {
  const auto line = [](const std::vector<std::string>& cells) { return "| " + Join(cells, " | ") + " |\n"; };
  std::string text = line(table.header) + "|";
  for (size_t i = 0; i < table.header.size(); ++i) text += "---|";
  text += "\n";
  for (const std::vector<std::string>& row : table.rows) text += line(row);
  return text;
}

}  // namespace crosstalk
