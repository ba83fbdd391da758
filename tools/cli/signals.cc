#include "tools/cli/signals.h"

#include <signal.h>

namespace crosstalk {

namespace {

volatile sig_atomic_t received = 0;
struct sigaction interrupt_before;
struct sigaction terminate_before;

// Runs inside a signal: only sets the flag.
void NoteSignal(int number) { received = number; }

}  // namespace

StopSignals::StopSignals() {
  received = 0;
  struct sigaction action = {};
  action.sa_handler = NoteSignal;
  // The second signal of a kind finds the default action: the process ends.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &action, &interrupt_before);
  sigaction(SIGTERM, &action, &terminate_before);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &interrupt_before, nullptr);
  sigaction(SIGTERM, &terminate_before, nullptr);
}

int StopSignals::Received() { return received; }

void IgnoreWriteSignals() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

}  // namespace crosstalk
