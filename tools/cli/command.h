// The interface of a subcommand, and the list of them. A subcommand is one file, tools/commands/NAME.cc, that defines
// its factory:
//
//   FieldTable<ComplexitySettings> ComplexityFields() {
//     return {MakeOption("--n", &ComplexitySettings::n, "N", "Number of queries.")};
//   }
//   Command ComplexityCommand() {
//     return {"complexity", "cost of an attention layer", "Prints the parameters and …",
//             OptionsOf(ComplexityFields, RunComplexity, Computes::kNo)};
//   }
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "crosstalk/runtime/enum_names.h"
#include "tools/cli/option_table.h"

namespace crosstalk {

struct Command {
  std::string name;         // "train"
  std::string summary;      // one line, for `crosstalk --help`: lower case, no full stop
  std::string description;  // what it does, reads and writes, for `crosstalk NAME --help`
  // Declares the options and returns what runs once they are parsed. That function returns the exit code, or throws:
  // Error becomes its kind's exit code, std::bad_alloc 5, and the message goes to standard error.
  std::function<std::function<int()>(OptionTable& options)> declare;
};

// The declaration of a command whose options are the rows of its settings and, where it computes, --threads and --simd.
enum class Computes { kNo, kYes };
template <typename Settings>
std::function<std::function<int()>(OptionTable& options)> OptionsOf(FieldTable<Settings> (*fields)(),
                                                                    int (*run)(const Settings&), Computes computes) {
  return [=](OptionTable& options) -> std::function<int()> {
    options.AddFields(fields());
    if (computes == Computes::kYes) options.AddThreads();
    return [=, &options] { return run(options.Over(fields())); };
  };
}

Command DemoCommand();
Command TrainCommand();
Command EvalCommand();
Command FinetuneCommand();
Command PredictCommand();
Command ScoreCommand();
Command GenerateCommand();
Command EmbedCommand();
Command ReportCommand();
Command ShowCommand();
Command InspectCommand();
Command CompareCommand();
Command ReproduceCommand();
Command ImportCommand();
Command ExportCommand();
Command ForwardCommand();
Command AttendCommand();
Command ComplexityCommand();
Command TraceCommand();
Command SimulateCommand();
Command BenchCommand();
Command TokenizeCommand();
Command OptionsCommand();

// The description of the whole command in `crosstalk --help` and the manual.
extern const char* const kPurpose;    // "Transformer models …", a sentence
extern const char* const kExitCodes;  // "0 done, 1 failure, …", in lines

// In the order in which `crosstalk --help` shows them.
std::vector<Command> AllCommands();

// Parses and runs a command line; returns the process's exit code. Everything but results goes to standard error.
int RunCommandLine(const std::function<std::vector<Command>()>& commands, int argc, const char* const* argv);

// Completion of crosstalk's command line in a shell: subcommands, options, choices that a table knows, and paths.

enum class Shell { kBash, kZsh, kFish };
template <>
struct EnumNames<Shell> {
  static constexpr EnumName<Shell> kTable[] = {{Shell::kBash, "bash"}, {Shell::kZsh, "zsh"}, {Shell::kFish, "fish"}};
};

// The script that the shell reads.
std::string CompletionScript(Shell shell, const std::vector<Command>& commands);

// Pages of the manual, crosstalk(1) and crosstalk-train(1), in the language of man: from the tables of options, as
// `crosstalk --help` is.

std::string ManualOverview(const std::vector<Command>& commands);
std::string ManualPage(const Command& command);

}  // namespace crosstalk
