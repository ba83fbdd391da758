// A table of texts, which files and pages show each in its way.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crosstalk {

// A header, and rows of as many cells.
struct TextTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

// The cells are plain text.
std::string MarkdownTable(const TextTable& table);

// Plain text as it stands in a line of Markdown: what Markdown or the HTML within it would read as its own is escaped,
// and line ends are spaces.
std::string EscapeMarkdown(std::string_view text);

}  // namespace crosstalk
