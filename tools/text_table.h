// A table of texts, which files and pages show each in its way.
#pragma once

#include <string>
#include <vector>

namespace crosstalk {

// A header, and rows of as many cells.
struct TextTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

std::string MarkdownTable(const TextTable& table);

}  // namespace crosstalk
