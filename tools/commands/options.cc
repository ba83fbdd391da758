// `crosstalk options`: every option of every subcommand, from the tables that the command line is parsed by, as names,
// tables, pages of a manual, or completion for a shell.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/command.h"
#include "tools/cli/output.h"

namespace crosstalk {
namespace {

struct OptionsSettings {
  std::string command;
  bool markdown = false, man = false;
  std::optional<Shell> completion;
};

FieldTable<OptionsSettings> OptionsFields() {
  using S = OptionsSettings;
  return {MakeOption("COMMAND", &S::command, "COMMAND", "A subcommand."),
          MakeOption("--markdown", &S::markdown, "", "Tables with help and defaults: docs/options.md."),
          MakeOption("--man", &S::man, "", "The subcommand's page of the manual, or without one crosstalk's own."),
          MakeOption("--completion", &S::completion, "", "Completion of the command line for that shell.")};
}

std::vector<OptionTable::Row> DeclaredOptions(const Command& command) {
  OptionTable options;
  command.declare(options);
  return options.Rows();
}

// A row that an earlier command has already, word for word, is named with that command instead; `first_at` has them.
std::string Markdown(const Command& command, std::map<std::string, std::string>& first_at) {
  OptionTable options;
  command.declare(options);
  std::string text = StrCat("## crosstalk ", command.name, "\n\n", command.description, "\n");
  std::string group;
  std::map<std::string, std::vector<std::string>> elsewhere;  // options by the command that has their row
  for (const OptionTable::Row& row : options.Rows()) {
    if (!row.of.empty()) continue;
    const std::string names = Join(row.names, ", ");
    const std::string entry = StrCat("- `", names, row.flag() || row.placeholder == names ? "" : " " + row.placeholder,
                                     row.default_text.empty() ? "` " : "` (" + row.default_text + ") ", row.help, "\n");
    const auto [first, is_new] = first_at.emplace(entry, command.name);
    if (!is_new) {
      elsewhere[first->second].push_back("`" + names + "`");
      continue;
    }
    if (row.group != group) {
      group = row.group;
      text += StrCat("\n**", group, "**\n\n");
    }
    text += entry;
  }
  for (const auto& [name, names] : elsewhere) {
    text += StrCat("\nAs under `crosstalk ", name, "`: ", Join(names, ", "), ".\n");
  }
  const std::string taken = options.TakenAsWell();
  return taken.empty() ? text : StrCat(text, "\n", taken, "\n");
}

// Those of the subcommand that is named, or of all.
std::vector<Command> ChosenCommands(const std::string& name) {
  std::vector<Command> commands = AllCommands();
  if (name.empty()) return commands;
  std::vector<std::string> names;
  for (const Command& command : commands) {
    if (command.name == name) return {command};
    names.push_back(command.name);
  }
  Fail(ErrorKind::kUsage, "there is no subcommand ", Excerpt(name), DidYouMean(name, names));
}

int ListOptions(const OptionsSettings& settings) {
  CROSSTALK_CHECK(settings.markdown + settings.man + settings.completion.has_value() <= 1,
                  "--markdown, --man and --completion each print something else; give one of them");
  CROSSTALK_CHECK(!settings.completion || settings.command.empty(), "--completion is of all subcommands; leave out ",
                  Excerpt(settings.command));
  const std::vector<Command> commands = ChosenCommands(settings.command);
  std::string text;
  if (settings.completion) {
    text = CompletionScript(*settings.completion, commands);
  } else if (settings.man) {
    text = settings.command.empty() ? ManualOverview(commands) : ManualPage(commands[0]);
  } else if (settings.markdown) {
    text =
        "# Options\n\nHere you find every option of every command, with its default in brackets; "
        "`crosstalk COMMAND --help` prints the same. Files for `--config`, and `run.json`, write names with "
        "underscores: `d_model` for `--d-model`. This page is the output of `crosstalk options --markdown`.\n";
    std::map<std::string, std::string> first_at;
    for (const Command& command : commands) text += "\n" + Markdown(command, first_at);
  } else {
    for (const Command& command : commands) {
      for (const OptionTable::Row& row : DeclaredOptions(command)) {
        text += (settings.command.empty() ? command.name + " " : "") + Join(row.names, ", ") + "\n";
      }
    }
  }
  PrintResult(text);
  return 0;
}

}  // namespace

Command OptionsCommand() {
  return {"options", "list every option of every subcommand",
          "Prints the names of the options, one a line; of one subcommand if it is named. Or their documentation, or "
          "completion for a shell.",
          OptionsOf(OptionsFields, ListOptions, Computes::kNo)};
}

}  // namespace crosstalk
