// Tables of a page.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace crosstalk {

// A cell: plain text unless made by HtmlCell.
struct TableCell {
  std::string html;
  bool number = false;
  bool is_long = false;

  TableCell(const std::string& text);  // escaped; a number if it looks like one: "1,234", "4.19", "-3e-05", "12.3 %"
  TableCell(const char* text) : TableCell(std::string(text)) {}
};
TableCell HtmlCell(std::string html);

struct TableOptions {
  std::string caption = {};        // plain text
  std::vector<bool> changed = {};  // rows that stand out, by number
};

// Columns whose cells below the header are numbers or empty are set right. The first cell of a row is its header.
// Wider than a phone, it scrolls alone. Rows may be shorter than the header.
std::string HtmlTable(const std::vector<std::string>& header, const std::vector<std::vector<TableCell>>& rows,
                      const TableOptions& options = {});

}  // namespace crosstalk
