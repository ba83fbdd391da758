#include "tools/page/page.h"

#include <algorithm>
#include <map>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

const char kPageStyle[] =
#include "embedded/tools/page/page.css.inc"
    ;

namespace {

constexpr char kTemplate[] =
#include "embedded/tools/page/page.html.inc"
    ;
constexpr char kScript[] =
#include "embedded/tools/page/page.js.inc"
    ;

// "Parameters of the model" becomes "parameters-of-the-model".
std::string Slug(std::string_view heading) {
  std::string slug;
  for (const char c : heading) {
    if (IsAsciiLetter(c) || IsAsciiDigit(c)) {
      slug += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return slug.empty() ? "section" : slug;
}

std::string Element(const std::string& begin, const std::string& text, const char* end) {
  return text.empty() ? "" : StrCat(begin, EscapeHtml(text), end, "\n");
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text, i);
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c1 = length == 2 && byte == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    constexpr std::string_view kMarks = "&<>\"'";
    constexpr const char* kNames[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    if (length == 0 || c1 || byte == 0x7F || (byte < 0x20 && byte != '\n' && byte != '\t')) {
      out += "\uFFFD";
    } else if (const size_t mark = kMarks.find(text[i]); mark != std::string_view::npos) {
      out += kNames[mark];
    } else {
      out += text.substr(i, length);
    }
    i += length == 0 ? 1 : length;
  }
  return out;
}

void Page::AddSection(const std::string& heading, const std::string& html) {
  if (html.empty()) return;
  std::string id = Slug(heading);
  const auto same =
      std::count_if(sections_.begin(), sections_.end(), [&](const Section& one) { return Slug(one.heading) == id; });
  if (same > 0) id += StrCat("-", same + 1);
  sections_.push_back({heading, id, html});
}

std::string Page::Html() const {
  std::string contents, sections;
  for (const Section& one : sections_) {
    const std::string heading = EscapeHtml(one.heading);
    contents += StrCat("<li><a href=\"#", one.id, "\">", heading, "</a></li>\n");
    sections += StrCat("<section id=\"", one.id, "\" aria-labelledby=\"", one.id, "-heading\">\n<h2 id=\"", one.id,
                       "-heading\">", heading, "</h2>\n", one.html, "\n</section>\n");
  }
  const std::map<std::string_view, std::string> values = {
      {"title", EscapeHtml(title_)}, {"kind", EscapeHtml(kind_)}, {"lead", EscapeHtml(lead_)}, {"style", kPageStyle},
      {"script", kScript},           {"contents", contents},      {"sections", sections},      {"version", Version()}};
  std::string html;
  for (std::string_view rest = kTemplate; !rest.empty();) {
    const size_t begin = rest.find('{'), end = rest.find('}');
    html += rest.substr(0, begin);
    if (begin == std::string_view::npos) break;
    html += values.at(rest.substr(begin + 1, end - begin - 1));
    rest.remove_prefix(end + 1);
  }
  return html;
}

std::string Subheading(const std::string& text) { return Element("<h3>", text, "</h3>"); }
std::string Paragraph(const std::string& text) { return Element("<p>", text, "</p>"); }
std::string Note(const std::string& text) { return Element("<p class=\"note\">", text, "</p>"); }

std::string Bullets(const std::vector<std::string>& texts) {
  std::string items;
  for (const std::string& text : texts) items += Element("<li>", text, "</li>");
  return items.empty() ? "" : StrCat("<ul>\n", items, "</ul>\n");
}

std::string Details(const std::string& summary, const std::string& html, Unfolded unfolded) {
  return StrCat("<details", unfolded == Unfolded::kYes ? " open" : "", "><summary>", EscapeHtml(summary),
                "</summary>\n", html, "</details>\n");
}

std::string RecordScript(const Json& record, const std::string& id) {
  std::string text;
  for (const char c : record.Dump()) text += c == '<' ? "\\u003c" : std::string(1, c);  // nothing looks like an end
  return StrCat("<script type=\"application/json\"", id.empty() ? "" : StrCat(" id=\"", id, "\""), ">", text,
                "</script>\n");
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

// A longer text gets room of its own, so that a narrow screen does not break it at each word.
constexpr size_t kLongText = 40;
constexpr std::string_view kArrow = "\u00A0→ ";

bool LooksLikeNumber(std::string text) {
  if (const size_t arrow = text.find(kArrow); arrow != std::string::npos) text.replace(arrow, kArrow.size(), " ");
  return text.find_first_of("0123456789") != std::string::npos && text[0] != 'e' && text[0] != ',' &&
         text.find_first_not_of("0123456789.,+-e% ") == std::string::npos && text.find(", ") == std::string::npos;
}

// Two numbers may stand on two lines, but none of them breaks, at the minus of its exponent for example.
std::string EscapePair(const std::string& text) {
  const size_t arrow = text.find(kArrow);
  if (arrow == std::string::npos || !LooksLikeNumber(text)) return EscapeHtml(text);
  const size_t end = arrow + kArrow.size() - 1;  // the arrow's own line is that of the first
  return StrCat("<span>", text.substr(0, end), "</span> <span>", text.substr(end + 1), "</span>");
}

std::string Cell(const char* tag, const std::string& classes, const std::string& text) {
  return StrCat("<", tag, classes.empty() ? "" : StrCat(" class=\"", classes, "\""), ">", EscapePair(text), "</",
                std::string_view(tag).substr(0, 2), ">");
}

}  // namespace

std::string HtmlTable(const TextTable& table, const std::string& caption) {
  if (table.rows.empty()) return "";
  std::vector<std::string> classes;  // of each column
  for (size_t column = 0; column < table.header.size(); ++column) {
    bool numbers = false, others = false, pairs = false;
    for (const std::vector<std::string>& row : table.rows) {
      if (column >= row.size() || row[column].empty()) continue;
      (LooksLikeNumber(row[column]) ? numbers : others) = true;
      pairs = pairs || row[column].find(kArrow) != std::string::npos;
    }
    classes.push_back(!numbers || others ? "" : pairs ? "number pair" : "number");
  }
  std::string html = StrCat("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"",
                            caption.empty() ? "table" : EscapeHtml(caption), "\"><table>",
                            Element("<caption>", caption, "</caption>"), "<thead><tr>");
  for (size_t column = 0; column < table.header.size(); ++column) {
    html += Cell("th scope=\"col\"", classes[column], table.header[column]);
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    html += "<tr>";
    for (size_t column = 0; column < table.header.size(); ++column) {
      const std::string text = column < row.size() ? row[column] : "";
      html += Cell(column == 0 ? "th scope=\"row\"" : "td", text.size() > kLongText ? "long" : classes[column], text);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace crosstalk
