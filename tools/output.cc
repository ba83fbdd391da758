#include "tools/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tools/progress.h"

namespace crosstalk {

void PrintMessage(const std::string& line) {
  ClearProgressLine();
  std::fprintf(stderr, "%s\n", line.c_str());
  std::fflush(stderr);
}

void PrintResult(const std::string& text) {
  ClearProgressLine();
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    Fail(errno == EPIPE ? ErrorKind::kFailure : ErrorKind::kResource,
         "standard output: cannot write the result: ", std::strerror(errno));
  }
}

void PrintResult(const Json& value) { PrintResult(value.Dump() + "\n"); }

}  // namespace crosstalk
