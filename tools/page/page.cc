#include "tools/page/page.h"

#include <algorithm>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr char kPageStyle[] =
#include "embedded/tools/page/page.css.inc"
    ;
constexpr char kScript[] =
#include "embedded/tools/page/page.js.inc"
    ;

// What a browser may load: only the file's own content.
constexpr char kPolicy[] =
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'";

// "Parameters of the model" becomes "parameters-of-the-model".
std::string Slug(std::string_view heading) {
  std::string slug;
  for (const char c : heading) {
    const bool upper = c >= 'A' && c <= 'Z';
    if (upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      slug += static_cast<char>(upper ? c - 'A' + 'a' : c);
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return slug.empty() ? "section" : slug;
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text, i);
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c1 = length == 2 && byte == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (length == 0 || c1 || byte == 0x7F || (byte < 0x20 && byte != '\n' && byte != '\t')) {
      out += "\uFFFD";
    } else if (byte == '&') {
      out += "&amp;";
    } else if (byte == '<') {
      out += "&lt;";
    } else if (byte == '>') {
      out += "&gt;";
    } else if (byte == '"') {
      out += "&quot;";
    } else if (byte == '\'') {
      out += "&#39;";
    } else {
      out += text.substr(i, length);
    }
    i += length == 0 ? 1 : length;
  }
  return out;
}

void Page::AddSection(const std::string& heading, const std::string& html) {
  std::string id = Slug(heading);
  int same = 0;
  for (const Section& one : sections_) same += Slug(one.heading) == id;
  if (same > 0) id += StrCat("-", same + 1);
  sections_.push_back({heading, id, html});
}

std::string Page::Html() const {
  std::string html =
      StrCat(kPageBegin,
             "\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"",
             kPolicy,
             "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
             "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n<title>",
             EscapeHtml(title_), "</title>\n<style>\n", kLightStyle,
             "</style>\n<style id=\"dark\" media=\"screen and (prefers-color-scheme: dark)\">\n", kDarkStyle,
             "</style>\n<style>\n", kChartStyle, kPageStyle,
             "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n",
             "<header class=\"page-head\">\n<p class=\"kind\">", EscapeHtml(kind_),
             "</p>\n<button class=\"scheme\" id=\"scheme\" type=\"button\" hidden>Dark colours</button>\n"
             "<h1>",
             EscapeHtml(title_), "</h1>\n");
  if (!lead_.empty()) html += StrCat("<p class=\"lead\">", EscapeHtml(lead_), "</p>\n");
  html += "</header>\n<nav class=\"contents\" aria-label=\"Contents\">\n<ol>\n";
  for (const Section& one : sections_) {
    html += StrCat("<li><a href=\"#", one.id, "\">", EscapeHtml(one.heading), "</a></li>\n");
  }
  html += "</ol>\n</nav>\n<main id=\"main\" tabindex=\"-1\">\n";
  for (const Section& one : sections_) {
    html += StrCat("<section id=\"", one.id, "\" aria-labelledby=\"", one.id, "-heading\">\n<h2 id=\"", one.id,
                   "-heading\">", EscapeHtml(one.heading), "</h2>\n", one.html, "\n</section>\n");
  }
  html += StrCat("</main>\n<footer class=\"page-foot\">Made by Crosstalk ", Version(),
                 ". This file needs no network and no other file.</footer>\n<script>\n", kScript,
                 "</script>\n</body>\n</html>\n");
  return html;
}

std::string FactList(const std::vector<Fact>& facts) {
  std::string html = "<dl class=\"facts\">\n";
  for (const Fact& fact : facts) {
    html += StrCat("<div><dt>", EscapeHtml(fact.name), "</dt><dd>", EscapeHtml(fact.value));
    if (!fact.detail.empty()) html += StrCat("<small>", EscapeHtml(fact.detail), "</small>");
    html += "</dd></div>\n";
  }
  return html + "</dl>\n";
}

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
  for (const std::vector<TableCell>& row : rows) {
    html += "<tr>";
    for (size_t column = 0; column < header.size(); ++column) {
      const std::string cell = column < row.size() ? row[column].html : "";
      const bool is_long = column < row.size() && row[column].is_long;
      const std::string classes = is_long ? " class=\"long\"" : with_class(column);
      html += column == 0 ? StrCat("<th scope=\"row\"", classes, ">", cell, "</th>")
                          : StrCat("<td", classes, ">", cell, "</td>");
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string HtmlTable(const TextTable& table, const TableOptions& options) {
  std::vector<std::vector<TableCell>> rows;
  for (const std::vector<std::string>& texts : table.rows) {
    std::vector<TableCell>& cells = rows.emplace_back(texts.begin(), texts.end());
    for (size_t i = 0; i < texts.size() && options.unbroken; ++i) {
      if (texts[i].empty() || cells[i].number || cells[i].is_long) continue;
      cells[i] = HtmlCell("<span style=\"white-space: nowrap\">" + EscapeHtml(texts[i]) + "</span>");
    }
  }
  return HtmlTable(table.header, rows, options);
}

const char kLightStyle[] =
#include "embedded/tools/page/light.css.inc"
    ;
const char kDarkStyle[] =
#include "embedded/tools/page/dark.css.inc"
    ;
const char kChartStyle[] =
#include "embedded/tools/page/chart.css.inc"
    ;

}  // namespace crosstalk
