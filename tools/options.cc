// `crosstalk options`: every option of every subcommand, from the tables that the command line is parsed by.
#include <functional>
#include <string>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/command.h"
#include "tools/output.h"

namespace crosstalk {
namespace {

struct OptionsSettings {
  std::string command;
  bool markdown = false;
};

FieldTable<OptionsSettings> OptionsFields() {
  using S = OptionsSettings;
  return {MakeOption("COMMAND", &S::command, "COMMAND", "A subcommand."),
          MakeOption("--markdown", &S::markdown, "", "Tables with help and defaults: docs/options.md.")};
}

// "|" would end a cell of the table.
std::string MarkdownCell(const std::string& text) { return Join(Split(text, '|'), "\\|"); }

std::string Markdown(const Command& command, const std::vector<OptionTable::Row>& rows) {
  std::string text = StrCat("## crosstalk ", command.name, "\n\n", command.description, "\n");
  std::string group;
  for (const OptionTable::Row& row : rows) {
    if (row.group != group) {
      group = row.group;
      text += StrCat("\n| ", group, " | | default |\n|---|---|---|\n");
    }
    text += StrCat("| `", MarkdownCell(row.names),
                   row.placeholder.empty() || row.placeholder == row.names ? "" : " " + MarkdownCell(row.placeholder),
                   "` | ", MarkdownCell(row.help), " | ", MarkdownCell(row.default_text), " |\n");
  }
  return text;
}

int ListOptions(const OptionsSettings& settings) {
  std::string text;
  if (settings.markdown) {
    text =
        "# Options\n\nWhat `crosstalk options --markdown` prints. In a file for `--config`, and in `run.json`, an "
        "option "
        "goes by its name with underscores: `d_model` for `--d-model`.\n";
  }
  bool found = settings.command.empty();
  std::vector<std::string> names;
  for (const Command& command : AllCommands()) {
    names.push_back(command.name);
    if (!settings.command.empty() && command.name != settings.command) continue;
    found = true;
    OptionTable options;
    const std::function<int()> run = command.declare(options);
    if (settings.markdown) {
      text += "\n" + Markdown(command, options.Rows());
      continue;
    }
    for (const OptionTable::Row& row : options.Rows()) {
      text += (settings.command.empty() ? command.name + " " : "") + row.names + "\n";
    }
  }
  CROSSTALK_CHECK(found, "there is no subcommand ", Excerpt(settings.command), DidYouMean(settings.command, names));
  PrintResult(text);
  return 0;
}

}  // namespace

Command OptionsCommand() {
  return {"options", "list every option of every subcommand",
          "Prints the names of the options, one a line; of one subcommand if it is named.",
          OptionsOf(OptionsFields, ListOptions, Computes::kNo)};
}

}  // namespace crosstalk
