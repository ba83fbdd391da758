// What a subcommand is, and the list of them. A subcommand is one file, tools/NAME.cc, that defines its factory:
//
//   Command ComplexityCommand() {
//     return {"complexity", "cost of an attention layer", "Prints the parameters and …",
//             [](OptionTable& options) -> std::function<int()> {
//               auto settings = std::make_shared<Settings>();
//               options.Add("--n", &settings->n, "N", "number of queries");
//               return [settings] { return Run(*settings); };
//             }};
//   }
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/option_table.h"

namespace crosstalk {

struct Command {
  std::string name;         // "train"
  std::string summary;      // one line, for `crosstalk --help`: lower case, no full stop
  std::string description;  // what it does, reads and writes, for `crosstalk NAME --help`
  // Declares the options and returns what runs once they are parsed. That function returns the exit code, or throws:
  // Error becomes its kind's exit code, std::bad_alloc 5, and the message goes to standard error.
  std::function<std::function<int()>(OptionTable& options)> declare;
};

Command TrainCommand();
Command EvalCommand();
Command FinetuneCommand();
Command PredictCommand();
Command ScoreCommand();
Command GenerateCommand();
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
Command BenchCommand();
Command TokenizeCommand();
Command OptionsCommand();

// In the order in which `crosstalk --help` shows them.
std::vector<Command> AllCommands();

// Parses and runs a command line; returns the process's exit code. Everything but results goes to standard error.
int RunCommandLine(const std::function<std::vector<Command>()>& commands, int argc, const char* const* argv);

}  // namespace crosstalk
