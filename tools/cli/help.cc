// What is printed of the options: `--help`, and the manual page.
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/command.h"
#include "tools/cli/option_table.h"

namespace crosstalk {

// How an OptionTable shows its options: --help, and the rows of the documentation.

namespace {

constexpr size_t kHelpWidth = 100;
constexpr size_t kHelpColumn = 34;  // where the sentences of the help begin

std::string Wrapped(const std::string& text, size_t column, size_t first_column) {
  std::string out;
  size_t at = first_column;
  for (const std::string& word : Split(text, ' ')) {
    if (at > column && at + word.size() > kHelpWidth) {
      out += "\n" + std::string(column, ' ');
      at = column;
    } else if (at > column) {
      out += ' ';
      ++at;
    }
    out += word;
    at += word.size();
  }
  return out;
}

std::string Paragraphs(const std::string& text) {
  std::string out;
  for (const std::string& paragraph : Split(text, '\n')) out += Wrapped(paragraph, 0, 0) + "\n";
  return out;
}

}  // namespace

std::string OptionTable::Help(const std::string& command, const std::string& description, HelpLength length) const {
  std::string usage = "Usage: crosstalk " + command;
  for (const Entry& entry : entries_) {
    if (entry.positional()) usage += " " + entry.placeholder + (entry.repeats() ? "…" : "");
  }
  std::string out = usage + " [OPTIONS]\n\n" + Paragraphs(description);
  std::string group;
  size_t more = 0;
  for (const Entry& entry : entries_) {
    if (entry.hidden || !entry.of.empty()) continue;
    if (length == HelpLength::kFirst && !entry.first) {
      ++more;
      continue;
    }
    if (entry.group != group) {
      group = entry.group;
      out += "\n" + group + ":\n";
    }
    std::string left = "  " + (entry.positional() ? entry.placeholder : Join(entry.names, ", "));
    if (!entry.flag() && !entry.positional()) left += " " + entry.placeholder;
    left += left.size() + 2 <= kHelpColumn ? std::string(kHelpColumn - left.size(), ' ')
                                           : "\n" + std::string(kHelpColumn, ' ');
    std::string text = entry.help;
    if (!entry.default_text.empty()) text += " [" + entry.default_text + "]";
    if (entry.required && !entry.positional()) text += " Required.";
    out += left + Wrapped(text, kHelpColumn, kHelpColumn) + "\n";
  }
  const auto line = [](std::string name, const std::string& help) {
    name.resize(kHelpColumn, ' ');
    return name + help + "\n";
  };
  out += line("  --help, -h", "This text.");
  if (more > 0) out += line("  --help=all", StrCat("The same with ", more, " more options."));
  if (const std::string taken = TakenAsWell(); !taken.empty()) out += "\n" + Paragraphs(taken);
  return out;
}

std::string OptionTable::TakenAsWell() const {
  std::string of;
  std::vector<std::string> defaults;
  for (const Entry& entry : entries_) {
    if (entry.of.empty() || entry.hidden) continue;
    of = entry.of;
    if (entry.other_default) defaults.push_back(entry.shown() + " " + entry.default_text);
  }
  if (of.empty()) return "";
  return StrCat("All options of `crosstalk ", of, "`", not_taken_.empty() ? "" : " but " + Join(not_taken_, ", "),
                " are taken as well: `crosstalk ", of, " --help=all` lists them.",
                defaults.empty() ? "" : " Other defaults here: " + Join(defaults, ", ") + ".");
}

std::vector<OptionTable::Row> OptionTable::Rows() const {
  std::vector<Row> rows;
  for (const Entry& entry : entries_) {
    if (entry.hidden) continue;
    rows.push_back({entry.names, entry.group, entry.placeholder, entry.help, entry.default_text, entry.of, entry.type,
                    entry.list, entry.choices, entry.required, entry.options.is_path});
  }
  return rows;
}

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
  std::vector<OptionTable::Row> rows = options.Rows();
  std::erase_if(rows, [](const OptionTable::Row& row) { return !row.of.empty(); });
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
  if (const std::string taken = options.TakenAsWell(); !taken.empty()) page += ".PP\n" + TroffLines(taken);
  page += TaggedEntry(Strong("--help") + ", " + Strong("-h"),
                      "Print a summary; " + Strong("--help=all") + " prints every option.");
  return StrCat(page, ".SH EXIT STATUS\n", Troff(kExitCodes), ".SH SEE ALSO\n", Strong("crosstalk"), "(1)\n");
}

}  // namespace crosstalk
