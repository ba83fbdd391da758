#include "tools/page/page.h"

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/text.h"
#include "tools/page/style_sheets.h"

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

}  // namespace crosstalk
