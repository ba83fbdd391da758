// The `crosstalk` command. It counts the calls of operator new, for its subcommand bench.
#include <cstdlib>
#include <new>

#include "tools/cli/command.h"
#include "tools/cli/progress.h"
#include "tools/lab/bench/bench.h"

#ifndef __SANITIZE_ADDRESS__  // which has an operator new of its own, paired with its other forms
void* operator new(size_t size) {
  ++crosstalk::ThreadAllocations();
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

int main(int argc, char** argv) {
  crosstalk::IgnoreWriteSignals();
  return crosstalk::RunCommandLine(crosstalk::AllCommands, argc, argv);
}
