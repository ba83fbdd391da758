// Page: one HTML file that needs nothing else: no network, no script or style from elsewhere. Light and dark, by the
// system and by a switch; for a phone, a printer, the keyboard and a screen reader.
//
//   Page page("A run");
//   page.AddSection("Curves", LineChart({.title = "loss", .x_label = "step"}, series));
//   WriteFileAtomically(path, page.Html());
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/cli/output.h"

namespace crosstalk {

// Text as it stands in an element or in an attribute's value: &, <, >, " and ' escaped, U+FFFD for what HTML has no
// character for (bytes that are not UTF-8, control characters but tabs and line ends).
std::string EscapeHtml(std::string_view text);

class Page {
 public:
  explicit Page(std::string title) : title_(std::move(title)) {}

  // What kind of page it is, above the title, and a sentence below it: plain text.
  void SetKind(std::string kind) { kind_ = std::move(kind); }
  void SetLead(std::string lead) { lead_ = std::move(lead); }
  // A <section> with a heading and a line in the contents. `html` is HTML: what comes from outside is escaped in it.
  void AddSection(const std::string& heading, const std::string& html);

  // The same bytes for the same sections.
  std::string Html() const;

 private:
  struct Section {
    std::string heading;
    std::string id;
    std::string html;
  };

  std::string title_;
  std::string kind_ = "Crosstalk";
  std::string lead_;
  std::vector<Section> sections_;
};

// How a page's file begins: for CheckOutput.
inline constexpr std::string_view kPageBegin = "<!DOCTYPE html>";

// <dl> of a few numbers that matter; `detail` may be empty. Plain text.
struct Fact {
  std::string name, value, detail;
};
std::string FactList(const std::vector<Fact>& facts);

// Tables of a page.

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
  std::string caption = {};  // plain text
  bool unbroken = false;     // of a TextTable: a short text stays on its line: "2.0410 ± 0.0433 (3)"
};

// Columns whose cells below the header are numbers or empty are set right. The first cell of a row is its header.
// Wider than a phone, it scrolls alone. Rows may be shorter than the header.
std::string HtmlTable(const std::vector<std::string>& header, const std::vector<std::vector<TableCell>>& rows,
                      const TableOptions& options = {});
std::string HtmlTable(const TextTable& table, const TableOptions& options = {});

// The style sheets that pages and files of drawings share, as text.

extern const char kLightStyle[], kDarkStyle[], kChartStyle[];

}  // namespace crosstalk
