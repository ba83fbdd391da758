// The `crosstalk` command.
#include "tools/cli/command.h"
#include "tools/cli/progress.h"

int main(int argc, char** argv) {
  crosstalk::IgnoreWriteSignals();
  return crosstalk::RunCommandLine(crosstalk::AllCommands, argc, argv);
}
