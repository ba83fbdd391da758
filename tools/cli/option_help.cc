// How an OptionTable shows its options: --help, and the rows of the documentation.
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/option_table.h"

namespace crosstalk {

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
    if (entry.hidden) continue;
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
  return out;
}

std::vector<OptionTable::Row> OptionTable::Rows() const {
  std::vector<Row> rows;
  for (const Entry& entry : entries_) {
    if (entry.hidden) continue;
    rows.push_back({entry.names, entry.group, entry.placeholder, entry.help, entry.default_text, entry.type, entry.list,
                    entry.choices, entry.required, entry.options.is_path});
  }
  return rows;
}

}  // namespace crosstalk
