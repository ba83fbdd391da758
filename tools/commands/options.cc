// `crosstalk options`: every option of every subcommand, from the tables that the command line is parsed by, as names,
// pages of a manual, or completion for a shell.
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
  bool man = false;
  std::optional<Shell> completion;
};

FieldTable<OptionsSettings> OptionsFields() {
  using S = OptionsSettings;
  return {MakeOption("COMMAND", &S::command, "COMMAND", "A subcommand."),
          MakeOption("--man", &S::man, "", "The subcommand's page of the manual, or without one crosstalk's own."),
          MakeOption("--completion", &S::completion, "", "Completion of the command line for that shell.")};
}

std::vector<OptionTable::Row> DeclaredOptions(const Command& command) {
  OptionTable options;
  command.declare(options);
  return options.Rows();
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
  CROSSTALK_CHECK(!settings.man || !settings.completion,
                  "--man and --completion print different things; give one of them");
  CROSSTALK_CHECK(!settings.completion || settings.command.empty(), "--completion is of all subcommands; leave out ",
                  Excerpt(settings.command));
  const std::vector<Command> commands = ChosenCommands(settings.command);
  std::string text;
  if (settings.completion) {
    text = CompletionScript(*settings.completion, commands);
  } else if (settings.man) {
    text = settings.command.empty() ? ManualOverview(commands) : ManualPage(commands[0]);
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
