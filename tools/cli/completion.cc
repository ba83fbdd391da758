#include <algorithm>
#include <string_view>
#include <utility>

#include "crosstalk/runtime/text.h"
#include "tools/cli/command.h"

namespace crosstalk {

namespace {

// Possible values of an option or an argument.
enum class Value { kNone, kChoices, kPaths, kFolders, kUnknown };

struct Completed {
  OptionTable::Row row;
  Value value;
};

Value ValueOf(const OptionTable::Row& row) {
  if (row.flag()) return Value::kNone;
  if (!row.choices.empty()) return Value::kChoices;
  if (!row.is_path) return Value::kUnknown;
  return row.placeholder == "FOLDER" ? Value::kFolders : Value::kPaths;
}

struct CompletedCommand {
  std::string name, summary;
  std::vector<Completed> options, arguments;
};

std::vector<CompletedCommand> Complete(const std::vector<Command>& commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name);
  std::vector<CompletedCommand> all;
  for (const Command& command : commands) {
    OptionTable table;
    command.declare(table);
    table.AddConfig();
    CompletedCommand one{command.name, command.summary, {}, {}};
    for (OptionTable::Row row : table.Rows()) {
      if (row.positional() && row.placeholder == "COMMAND") row.choices = names;
      const Value value = ValueOf(row);
      (row.positional() ? one.arguments : one.options).push_back({std::move(row), value});
    }
    one.options.push_back({{.names = {"--help", "-h"}, .help = "Print a summary of the options."}, Value::kNone});
    all.push_back(std::move(one));
  }
  OptionTable::Row command{.names = {"COMMAND"}, .placeholder = "COMMAND", .help = "", .choices = names};
  all.push_back({"help", "print the subcommands, or the options of one", {}, {{command, Value::kChoices}}});
  return all;
}

// The first sentence, without its full stop.
std::string Sentence(const std::string& help) {
  const std::string first = help.substr(0, std::min(help.find(". "), help.find('\n')));
  return first.ends_with('.') ? first.substr(0, first.size() - 1) : first;
}

// `text` with a backslash before each character of `special`.
std::string WithBackslashes(const std::string& text, const char* special) {
  std::string out;
  for (const char c : text) {
    if (std::string_view(special).find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// ---- bash ----------------------------------------------------------------------------------------------------------

// The statement that says what is completed.
std::string BashStatement(const Completed& completed) {
  const std::string choices = ShellQuoted(Join(completed.row.choices, " "));
  switch (completed.value) {
    case Value::kChoices:
      return completed.row.list && !completed.row.positional() ? "kind=list words=" + choices : "words=" + choices;
    case Value::kPaths:
      return "kind=paths";
    case Value::kFolders:
      return "kind=folders";
    case Value::kUnknown:
      return "return";
    case Value::kNone:
      break;
  }
  return "";
}

std::string BashCommand(const CompletedCommand& command) {
  std::vector<std::string> names;
  std::vector<std::pair<std::string, std::vector<std::string>>> statements;  // each with the options that it is for
  for (const Completed& completed : command.options) {
    names.insert(names.end(), completed.row.names.begin(), completed.row.names.end());
    const std::string statement = BashStatement(completed);
    if (statement.empty()) continue;
    auto at = statements.begin();
    while (at != statements.end() && at->first != statement) ++at;
    if (at == statements.end()) at = statements.insert(at, {statement, {}});
    at->second.insert(at->second.end(), completed.row.names.begin(), completed.row.names.end());
  }
  std::string text = StrCat("    ", command.name, ")\n      options=", ShellQuoted(Join(names, " ")), "\n");
  text += "      case $before in\n";
  for (const auto& [statement, options] : statements) {
    text += StrCat("        ", Join(options, "|"), ") ", statement, " ;;\n");
  }
  if (!command.arguments.empty()) {
    text += StrCat("        *) [[ $word == -* ]] || { ", BashStatement(command.arguments[0]), "; } ;;\n");
  }
  return text + "      esac\n      ;;\n";
}

std::string BashScript(const std::vector<CompletedCommand>& commands) {
  std::vector<std::string> names = {"--help", "--version"};
  for (const CompletedCommand& command : commands) names.push_back(command.name);
  std::string text = R"(# Completion of crosstalk in bash.
_crosstalk() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} kind=words words= options=
  COMPREPLY=()
  # bash takes --attention=talking for three words.
  if [[ $word == '=' ]]; then
    word=
  elif [[ $before == '=' ]]; then
    before=${COMP_WORDS[COMP_CWORD-2]}
  fi
  local command=${COMP_WORDS[1]}
  if ((COMP_CWORD == 1)); then
    command= words=)" +
                     ShellQuoted(Join(names, " ")) +
                     R"(
  fi
  case $command in
)";
  for (const CompletedCommand& command : commands) text += BashCommand(command);
  return text + R"(  esac
  case $kind in
    words) mapfile -t COMPREPLY < <(compgen -W "${words:-$options}" -- "$word") ;;
    list)  # after the last comma
      local first=
      [[ $word != *,* ]] || first=${word%,*},
      mapfile -t COMPREPLY < <(compgen -P "$first" -W "$words" -- "${word##*,}")
      compopt -o nospace 2> /dev/null
      ;;
    paths | folders)
      compopt -o filenames 2> /dev/null
      if [[ $kind == paths ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
      else
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
      fi
      ;;
  esac
}
complete -F _crosstalk crosstalk
)";
}

// ---- zsh -----------------------------------------------------------------------------------------------------------

// ":FOLDER:_files -/", the end of what _arguments takes of an option.
std::string ZshValue(const Completed& completed) {
  const std::string choices = Join(completed.row.choices, " ");
  const std::string name = ":" + WithBackslashes(completed.row.placeholder, ":\\") + ":";
  switch (completed.value) {
    case Value::kChoices:
      return completed.row.list && !completed.row.positional() ? name + "_values -s , value " + choices
                                                               : name + "(" + choices + ")";
    case Value::kPaths:
      return name + "_files";
    case Value::kFolders:
      return name + "_files -/";
    case Value::kUnknown:
      return name + " ";
    case Value::kNone:
      break;
  }
  return "";
}

std::string ZshCommand(const CompletedCommand& command) {
  std::string text = StrCat("    ", command.name, ")\n      _arguments");
  for (const Completed& completed : command.options) {
    const std::string others =
        completed.row.names.size() > 1 ? "(" + Join(completed.row.names, " ") + ")" : std::string();
    const std::string description = "[" + WithBackslashes(Sentence(completed.row.help), "[]\\") + "]";
    for (const std::string& name : completed.row.names) {
      const char* const value_follows = completed.row.flag() ? "" : name.starts_with("--") ? "=" : "+";
      text += " \\\n        " + ShellQuoted(StrCat(others, name, value_follows, description, ZshValue(completed)));
    }
  }
  for (const Completed& completed : command.arguments) {
    text += " \\\n        " + ShellQuoted((completed.row.list ? "*" : "") + ZshValue(completed));
  }
  return text + "\n      ;;\n";
}

std::string ZshScript(const std::vector<CompletedCommand>& commands) {
  std::string text = R"(#compdef crosstalk
# Completion of crosstalk in zsh.
_crosstalk() {
  if (( CURRENT == 2 )); then
    local -a subcommands=(
)";
  for (const CompletedCommand& command : commands) {
    text += "      " + ShellQuoted(command.name + ":" + command.summary) + "\n";
  }
  text += R"(    )
    _describe -t commands subcommand subcommands
    _arguments '--help[Print the list of subcommands]' '--version[Print the version]'
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
)";
  for (const CompletedCommand& command : commands) text += ZshCommand(command);
  return text + R"(  esac
}
_crosstalk "$@"
)";
}

// ---- fish ----------------------------------------------------------------------------------------------------------

std::string FishQuoted(const std::string& text) { return "'" + WithBackslashes(text, "'\\") + "'"; }

std::string FishValue(const Completed& completed) {
  const std::string choices = Join(completed.row.choices, " ");
  switch (completed.value) {
    case Value::kChoices:
      return completed.row.list && !completed.row.positional()
                 ? " -x -a " + FishQuoted("(__fish_append , " + choices + ")")
                 : " -x -a " + FishQuoted(choices);
    case Value::kPaths:
      return " -r -F";
    case Value::kFolders:
      return " -x -a '(__fish_complete_directories)'";
    case Value::kUnknown:
      return " -x";
    case Value::kNone:
      break;
  }
  return "";
}

std::string FishScript(const std::vector<CompletedCommand>& commands) {
  std::string text = R"(# Completion of crosstalk in fish.
function __crosstalk_command
    set -l words (commandline -opc)
    test (count $words) -gt 1; and test $words[2] = $argv[1]
end
function __crosstalk_no_command
    test (count (commandline -opc)) -eq 1
end
complete -c crosstalk -f
complete -c crosstalk -n __crosstalk_no_command -l help -d 'Print the list of subcommands'
complete -c crosstalk -n __crosstalk_no_command -l version -d 'Print the version'
)";
  for (const CompletedCommand& command : commands) {
    text += StrCat("complete -c crosstalk -n __crosstalk_no_command -a ", command.name, " -d ",
                   FishQuoted(command.summary), "\n");
    const std::string begin = StrCat("complete -c crosstalk -n '__crosstalk_command ", command.name, "'");
    for (const Completed& completed : command.options) {
      text += begin;
      for (const std::string& name : completed.row.names) {
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      text += FishValue(completed) + " -d " + FishQuoted(Sentence(completed.row.help)) + "\n";
    }
    for (const Completed& completed : command.arguments) {
      const std::string value = FishValue(completed);
      // An argument requires nothing after it: -r and -x are of options.
      text += begin + (value == " -r -F" ? " -F" : " -f" + value.substr(std::string(" -x").size())) + "\n";
    }
  }
  return text;
}

}  // namespace

std::string CompletionScript(Shell shell, const std::vector<Command>& commands) {
  const std::vector<CompletedCommand> completed = Complete(commands);
  if (shell == Shell::kBash) return BashScript(completed);
  return shell == Shell::kZsh ? ZshScript(completed) : FishScript(completed);
}

}  // namespace crosstalk
