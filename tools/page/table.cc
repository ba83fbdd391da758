#include "tools/page/table.h"

#include <algorithm>

#include "crosstalk/runtime/check.h"
#include "tools/page/page.h"

namespace crosstalk {
namespace {

// Text of more bytes gets room of its own, so that a narrow screen does not break it at each word.
constexpr size_t kLongText = 40;

bool LooksLikeNumber(const std::string& text) {
  if (text.empty() || text.find_first_of("0123456789") == std::string::npos) return false;
  if (text.find_first_not_of("0123456789.,+-e% ") != std::string::npos) return false;
  return text[0] != 'e' && text[0] != ',' && text.find(", ") == std::string::npos;
}

}  // namespace

TableCell::TableCell(const std::string& text)
    : html(EscapeHtml(text)), number(LooksLikeNumber(text)), is_long(text.size() > kLongText) {}

TableCell HtmlCell(std::string html) {
  TableCell cell("");
  cell.html = std::move(html);
  return cell;
}

std::string HtmlTable(const std::vector<std::string>& header, const std::vector<std::vector<TableCell>>& rows,
                      const TableOptions& options) {
  std::vector<bool> numbers(header.size(), false);
  for (size_t column = 0; column < header.size(); ++column) {
    bool any = false, all = true;
    for (const std::vector<TableCell>& row : rows) {
      if (column >= row.size() || row[column].html.empty()) continue;
      any = any || row[column].number;
      all = all && row[column].number;
    }
    numbers[column] = any && all;
  }
  const auto with_class = [&](size_t column) { return numbers[column] ? " class=\"number\"" : ""; };
  std::string html = "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"";
  html += (options.caption.empty() ? "table" : EscapeHtml(options.caption)) + "\"><table>";
  if (!options.caption.empty()) html += StrCat("<caption>", EscapeHtml(options.caption), "</caption>");
  html += "\n<thead><tr>";
  for (size_t column = 0; column < header.size(); ++column) {
    html += StrCat("<th scope=\"col\"", with_class(column), ">", EscapeHtml(header[column]), "</th>");
  }
  html += "</tr></thead>\n<tbody>\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool changed = i < options.changed.size() && options.changed[i];
    html += changed ? "<tr class=\"changed\">" : "<tr>";
    for (size_t column = 0; column < header.size(); ++column) {
      const std::string cell = column < rows[i].size() ? rows[i][column].html : "";
      const bool is_long = column < rows[i].size() && rows[i][column].is_long;
      const std::string classes = is_long ? " class=\"long\"" : with_class(column);
      html += column == 0 ? StrCat("<th scope=\"row\"", classes, ">", cell, "</th>")
                          : StrCat("<td", classes, ">", cell, "</td>");
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace crosstalk
