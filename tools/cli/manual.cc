#include "tools/cli/manual.h"

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

namespace {

// Text as troff takes it: a plain hyphen would become a dash that cannot be copied, and a point or an apostrophe begins
// a request where it begins a line.
std::string Troff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string Strong(const std::string& text) { return "\\fB" + Troff(text) + "\\fR"; }
std::string Emphasised(const std::string& text) { return "\\fI" + Troff(text) + "\\fR"; }

// Lines stay lines, and an empty one parts paragraphs.
std::string TroffLines(const std::string& text) {
  std::string out;
  bool first = true;
  for (const std::string& line : Split(text, '\n')) {
    if (!line.empty()) out += (first ? "" : ".br\n") + Troff(line) + "\n";
    if (line.empty()) out += ".PP\n";
    first = line.empty();
  }
  return out;
}

// "crosstalk-train", "train a model": the head of the page, without a day, for the same table gives the same bytes.
std::string TroffHead(const std::string& name, const std::string& summary) {
  std::string title = name;
  for (char& c : title) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return StrCat(".TH ", Troff(title), " 1 \"\" \"Crosstalk ", Version(), "\" \"Crosstalk\"\n.ad l\n.SH NAME\n",
                Troff(name), " \\- ", Troff(summary), "\n.SH SYNOPSIS\n");
}

std::string TaggedEntry(const std::string& term, const std::string& text) {
  return ".TP\n" + term + "\n" + text + (text.ends_with('\n') ? "" : "\n");
}

std::string TaggedOption(const OptionTable::Row& row) {
  std::vector<std::string> names;
  for (const std::string& name : row.names) names.push_back(Strong(name));
  std::string term = row.positional() ? Emphasised(row.placeholder) : Join(names, ", ");
  if (!row.flag() && !row.positional()) term += " " + Emphasised(row.placeholder);
  std::string text = row.help;
  if (!row.default_text.empty()) text += StrCat(" By default ", row.default_text, ".");
  if (row.required && !row.positional()) text += " Required.";
  return TaggedEntry(term, TroffLines(text));
}

}  // namespace

std::string ManualOverview(const std::vector<Command>& commands) {
  std::string purpose = kPurpose;
  purpose.pop_back();
  std::string page =
      StrCat(TroffHead("crosstalk", purpose), Strong("crosstalk"), " ", Emphasised("SUBCOMMAND"), " [",
             Emphasised("OPTIONS"), "]\n.br\n", Strong("crosstalk help"), " [", Emphasised("SUBCOMMAND"),
             "]\n.SH DESCRIPTION\n", Troff(kPurpose), "\n.SH SUBCOMMANDS\nEach has a page of its own.\n");
  std::vector<std::string> pages;
  for (const Command& command : commands) {
    page += TaggedEntry(Strong(command.name), Troff(command.summary));
    pages.push_back(Strong("crosstalk-" + command.name) + "(1)");
  }
  page += ".SH OPTIONS\n" + TaggedEntry(Strong("--help") + ", " + Strong("-h"), "Print the list of subcommands.") +
          TaggedEntry(Strong("--version"), "Print the version.");
  return StrCat(page, ".SH EXIT STATUS\n", Troff(kExitCodes), ".SH SEE ALSO\n", Join(pages, ",\n"), "\n");
}

std::string ManualPage(const Command& command) {
  OptionTable options;
  command.declare(options);
  options.AddConfig();
  const std::vector<OptionTable::Row> rows = options.Rows();
  std::string page = TroffHead("crosstalk-" + command.name, command.summary) + Strong("crosstalk " + command.name);
  for (const OptionTable::Row& row : rows) {
    if (row.positional()) page += " " + Emphasised(row.placeholder) + (row.list ? " ..." : "");
  }
  page += StrCat(" [", Emphasised("OPTIONS"), "]\n.SH DESCRIPTION\n", TroffLines(command.description), ".SH OPTIONS\n");
  std::string group;
  for (const OptionTable::Row& row : rows) {
    if (row.group != group) page += ".SS " + Troff(group = row.group) + "\n";
    page += TaggedOption(row);
  }
  page += TaggedEntry(Strong("--help") + ", " + Strong("-h"),
                      "Print a summary; " + Strong("--help=all") + " prints every option.");
  return StrCat(page, ".SH EXIT STATUS\n", Troff(kExitCodes), ".SH SEE ALSO\n", Strong("crosstalk"), "(1)\n");
}

}  // namespace crosstalk
