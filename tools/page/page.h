// Page: one HTML file that needs nothing else: no network, no script or style from elsewhere. Light and dark, by the
// system and by a switch; for a phone, a printer, the keyboard and a screen reader.
//
//   Page page("A run");
//   page.AddSection("Curves", Figure(LineChart{.title = "loss", .series = series}).Html());
//   WriteFileAtomically(path, page.Html());
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/runtime/json.h"
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
  // A <section> with a heading and a line in the contents; none for no HTML. What comes from outside is escaped in it.
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
// The style sheet of all pages; its first part is that of drawings in files too.
extern const char kPageStyle[];

// Parts of a section, of plain text except where `html` says so. All but the last two are empty for no text.
std::string Subheading(const std::string& text);
std::string Paragraph(const std::string& text);
std::string Note(const std::string& text);  // softer
std::string Bullets(const std::vector<std::string>& texts);
enum class Unfolded { kNo, kYes };
std::string Details(const std::string& summary, const std::string& html, Unfolded unfolded = Unfolded::kNo);
// What the page's script reads of the element around it.
std::string RecordScript(const Json& record, const std::string& id = "");

// <dl> of a few numbers that matter; `detail` may be empty.
struct Fact {
  std::string name, value, detail;
};
std::string FactList(const std::vector<Fact>& facts);

// Columns whose cells below the header are numbers or empty are set right: "1,234", "-3e-05", "12.3 %", "0.5 → 0.25".
// The first cell of a row is its header. Wider than a phone, it scrolls alone. Rows may be shorter than the header;
// without a row there is no table.
std::string HtmlTable(const TextTable& table, const std::string& caption = "");
template <typename Row>
std::string HtmlTable(const Columns<Row>& columns, const std::vector<Row>& rows, const std::string& caption) {
  return HtmlTable(TextOf(columns, rows), caption);
}

}  // namespace crosstalk
