#include "tools/cli/progress.h"

#include <signal.h>

namespace crosstalk {

void Progress::Update(const std::string& line) {
  const auto now = std::chrono::steady_clock::now();
  const auto interval = ErrorIsTerminal() ? std::chrono::milliseconds(100) : plain_interval_;
  if (now - last_ < interval) return;
  last_ = now;
  if (!ErrorIsTerminal()) {
    PrintMessage(line);
    shown_ = true;
    return;
  }
  ShowProgressLine(line);
}

void Progress::Count(const std::string& what, int64_t done, int64_t total) {
  const std::string line = StrCat(what, " ", done, " of ", total);
  if (done == total && shown_) {
    Last(line);
  } else {
    Update(line);
  }
}

void Progress::Last(const std::string& line) {
  last_ = std::chrono::steady_clock::now();
  PrintMessage(line);
}

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
