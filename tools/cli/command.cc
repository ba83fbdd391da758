#include "tools/cli/command.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"
#include "tools/cli/ranks.h"

namespace crosstalk {

std::vector<Command> AllCommands() {
  return {DemoCommand(),    TrainCommand(),    EvalCommand(),       FinetuneCommand(), PredictCommand(),
          ScoreCommand(),   GenerateCommand(), EmbedCommand(),      ReportCommand(),   ShowCommand(),
          InspectCommand(), CompareCommand(),  ReproduceCommand(),  ImportCommand(),   ExportCommand(),
          ForwardCommand(), AttendCommand(),   ComplexityCommand(), TraceCommand(),    SimulateCommand(),
          BenchCommand(),   TokenizeCommand(), OptionsCommand()};
}

const char* const kPurpose = "Transformer models on CPUs, around the talking-heads family of attention.";
const char* const kExitCodes =
    "0 done, 1 failure, 2 usage or configuration, 3 a data or model file rejected,\n"
    "4 numerical failure, 5 out of memory or disk, 130/143 interrupted with a checkpoint saved,\n"
    "141 nobody reads the output any more.\n";

namespace {

std::string Overview(const std::vector<Command>& commands) {
  std::string out = StrCat("Usage: crosstalk SUBCOMMAND [OPTIONS]\n\n", kPurpose, "\n\nSubcommands:\n");
  for (const Command& command : commands) {
    out += "  " + command.name + std::string(12 - command.name.size(), ' ') + command.summary + "\n";
  }
  return StrCat(out,
                "  help        this text; `crosstalk help SUBCOMMAND` is `crosstalk SUBCOMMAND --help`\n\n"
                "Options:\n"
                "  --version   print the version\n"
                "  --help      this text\n\n"
                "Exit codes: ",
                kExitCodes);
}

const Command& FindCommand(const std::vector<Command>& commands, const std::string& name) {
  std::vector<std::string> names = {"help"};
  for (const Command& command : commands) {
    if (command.name == name) return command;
    names.push_back(command.name);
  }
  const std::string nearest = NearestName(name, names);
  Fail(ErrorKind::kUsage, "there is no ", name[0] == '-' ? "option " : "subcommand ", Excerpt(name),
       nearest.empty() ? "; crosstalk --help lists them" : StrCat("; did you mean ", nearest, "?"));
}

int Dispatch(const std::vector<Command>& commands, std::vector<std::string> arguments) {
  if (arguments.empty()) {
    std::fputs(Overview(commands).c_str(), stderr);
    return static_cast<int>(ErrorKind::kUsage);
  }
  std::string name = arguments[0];
  arguments.erase(arguments.begin());
  if (name == "help" && !arguments.empty()) {
    name = arguments[0];
    arguments = {"--help"};
  }
  if (name == "help" || name == "--help" || name == "-h") {
    PrintResult(Overview(commands));
    return 0;
  }
  if (name == "--version" || name == "version") {
    PrintResult(StrCat("crosstalk ", Version(), "\n"));
    return 0;
  }
  const Command& command = FindCommand(commands, name);
  OptionTable options;
  const std::function<int()> run = command.declare(options);
  try {
    const OptionTable::Outcome outcome = options.Parse(arguments);
    if (outcome == OptionTable::Outcome::kRun) {
      CROSSTALK_CHECK(!StartedByMpi() || options.Has("--rank-timeout"), command.name,
                      " is computed by one process; start it without mpirun");
      if (!StartedByMpi() && options.Has("--threads")) SettleThreads(options, 1, Warn::kYes);
      return run();
    }
    const bool all = outcome == OptionTable::Outcome::kHelpAll;
    PrintResult(options.Help(command.name, command.description,
                             all ? OptionTable::HelpLength::kAll : OptionTable::HelpLength::kFirst));
    return 0;
  } catch (const Interrupted&) {
    PrintMessage("interrupted before anything was saved");
    // At once: a tokenizer's training cannot be ended, and its thread may not outlive what main returns from.
    std::_Exit(128 + StopSignals::Received());
  } catch (const Error& error) {
    Fail(error.kind(), options.MessageOf(error));
  }
}

int Report(ErrorKind kind, const char* message, const char* rest = "") {
  PrintError(message, rest);
  return static_cast<int>(kind);
}

}  // namespace

int RunCommandLine(const std::function<std::vector<Command>()>& commands, int argc, const char* const* argv) {
  try {
    try {
      return Dispatch(commands(), std::vector<std::string>(argv + 1, argv + argc));
    } catch (const ReaderIsGone&) {
      return 128 + SIGPIPE;
    } catch (const Error& error) {
      return Report(error.kind(), error.what());
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      return Report(ErrorKind::kFailure, "internal error: ", Excerpt(error.what(), 1000).c_str());
    }
  } catch (const std::bad_alloc&) {
    return Report(ErrorKind::kResource, "out of memory: use a smaller --batch, --input-length or model");
  }
}

}  // namespace crosstalk
