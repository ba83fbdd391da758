#include "tools/cli/progress.h"

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

}  // namespace crosstalk
