// The `crosstalk` command.
#include "tools/command.h"
#include "tools/signals.h"

int main(int argc, char** argv) {
  crosstalk::IgnoreWriteSignals();
  return crosstalk::RunCommandLine(crosstalk::AllCommands, argc, argv);
}
