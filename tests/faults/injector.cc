// The preloaded library's entry, which reads its orders from the environment and puts itself before main(); and
// allocations that fail when told: malloc and its kin, which operator new goes through, and anonymous mappings that the
// program itself asks for. glibc's own names for malloc's implementation make this short.
#include "tests/faults/injector.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace faults {

namespace {

constexpr Named<Target> kTargets[] = {{"file", Target::kFile},
                                      {"thread-file", Target::kThreadFile},
                                      {"memory", Target::kMemory},
                                      {"thread-memory", Target::kThreadMemory}};
constexpr Named<Action> kActions[] = {
    {"short", Action::kShort}, {"kill-before", Action::kKillBefore}, {"kill-after", Action::kKillAfter}};

Fault fault;
int report = -1;

// True if `text` begins with `word` and a colon or the end follows; moves after that.
bool Take(const char** text, const char* word) {
  const size_t length = strlen(word);
  if (strncmp(*text, word, length) != 0 || ((*text)[length] != ':' && (*text)[length] != '\0')) return false;
  *text += length + ((*text)[length] == ':' ? 1 : 0);
  return true;
}

Fault Parse(const char* text) {
  Fault parsed;
  for (const auto& [name, target] : kTargets) {
    if (Take(&text, name)) parsed.target = target;
  }
  if (parsed.target == Target::kNothing) {
    CannotInject("CROSSTALK_FAULT names neither file nor memory, of the main thread or of others");
  }
  char* end = nullptr;
  parsed.number = strtoll(text, &end, 10);
  if (end == text || parsed.number < 1) CannotInject("CROSSTALK_FAULT has no number of a call");
  text = *end == ':' ? end + 1 : end;
  if (parsed.target == Target::kMemory || parsed.target == Target::kThreadMemory) {
    parsed.error = ENOMEM;
  } else {
    for (const auto& [name, action] : kActions) {
      if (Take(&text, name)) parsed.action = action;
    }
    for (const auto& [name, error] : kErrors) {
      if (Take(&text, name)) parsed.error = error;
    }
    if (parsed.error == 0 && parsed.action == Action::kError) {
      CannotInject("CROSSTALK_FAULT says nothing that can be done to a file call");
    }
  }
  if (Take(&text, "on")) parsed.onwards = true;
  if (*text != '\0') CannotInject("CROSSTALK_FAULT has something after its end");
  return parsed;
}

// Where the program's own descriptors never are.
int OpenReport() {
  const char* path = getenv("CROSSTALK_FAULT_REPORT");
  if (path == nullptr) return -1;
  const int low = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  const int high = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, 500);
  if (high < 0) CannotInject("CROSSTALK_FAULT_REPORT cannot be written");
  close(low);
  return high;
}

std::atomic<bool> started{false};
void* (*system_mmap)(void*, size_t, int, int, int, off_t) = nullptr;
std::atomic<int64_t> main_count{0};
std::atomic<int64_t> thread_count{0};
std::atomic<bool> all_fail{false};

// Counts an allocation; true if it is to fail.
bool Fails() {
  if (!started.load(std::memory_order_relaxed)) return false;
  const bool in_main = InMainThread();
  const int64_t number = (in_main ? main_count : thread_count).fetch_add(1, std::memory_order_relaxed) + 1;
  const Fault& fault = TheFault();
  if (fault.target == (in_main ? Target::kMemory : Target::kThreadMemory) && number == fault.number) {
    if (fault.onwards) all_fail.store(true);
    return true;
  }
  return all_fail.load(std::memory_order_relaxed);
}

template <typename Call>
void* Allocate(Call&& call) {
  if (!Fails()) return call();
  errno = ENOMEM;
  return nullptr;
}

using Main = int (*)(int, char**, char**);
Main program_main = nullptr;
pthread_t main_thread;

int MainWithFaults(int argc, char** argv, char** environment) {
  main_thread = pthread_self();
  if (const char* text = getenv("CROSSTALK_FAULT")) fault = Parse(text);
  report = OpenReport();
  if (const char* root = getenv("CROSSTALK_FAULT_ROOT")) StartFiles(root, report);
  system_mmap = reinterpret_cast<decltype(system_mmap)>(dlsym(RTLD_NEXT, "mmap"));
  started.store(true);
  return program_main(argc, argv, environment);
}

__attribute__((destructor)) void AtTheEnd() {
  if (report < 0) return;
  started.store(false);
  dprintf(report, "memory %lld\nthread-memory %lld\n", static_cast<long long>(main_count.load()),
          static_cast<long long>(thread_count.load()));
}

}  // namespace

const Fault& TheFault() { return fault; }
bool InMainThread() { return pthread_equal(pthread_self(), main_thread) != 0; }

void CannotInject(const char* why) {
  const char* parts[] = {"faults: ", why, "\n"};
  for (const char* part : parts) {
    if (write(STDERR_FILENO, part, strlen(part)) < 0) break;
  }
  _exit(kCannotInject);
}

}  // namespace faults

// What the program's first instructions call, with its main().
extern "C" __attribute__((visibility("default"))) int __libc_start_main(faults::Main main, int argc, char** argv,
                                                                        void (*init)(), void (*fini)(),
                                                                        void (*loader_fini)(), void* stack_end) {
  using Start = int (*)(faults::Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  faults::program_main = main;
  const auto start = reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(faults::MainWithFaults, argc, argv, init, fini, loader_fini, stack_end);
}

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

#pragma GCC visibility push(default)

void* malloc(size_t size) {
  return faults::Allocate([&] { return __libc_malloc(size); });
}
void* calloc(size_t count, size_t size) {
  return faults::Allocate([&] { return __libc_calloc(count, size); });
}
void* realloc(void* old, size_t size) {
  return faults::Allocate([&] { return __libc_realloc(old, size); });
}
void* reallocarray(void* old, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return faults::Allocate([&] { return __libc_realloc(old, bytes); });
}
void* memalign(size_t alignment, size_t size) {
  return faults::Allocate([&] { return __libc_memalign(alignment, size); });
}
void* aligned_alloc(size_t alignment, size_t size) {
  return faults::Allocate([&] { return __libc_memalign(alignment, size); });
}
int posix_memalign(void** out, size_t alignment, size_t size) {
  void* memory = faults::Allocate([&] { return __libc_memalign(alignment, size); });
  if (memory == nullptr) return ENOMEM;
  *out = memory;
  return 0;
}
void* mmap(void* address, size_t size, int protection, int flags, int file, off_t offset) {
  if ((flags & MAP_ANONYMOUS) != 0 && faults::Fails()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  // By the C library's own call, in which the file faults see it; before main() there is nothing to see.
  if (faults::system_mmap != nullptr) return faults::system_mmap(address, size, protection, flags, file, offset);
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, size, protection, flags, file, offset));
}
void* mmap64(void* address, size_t size, int protection, int flags, int file, off_t offset) {
  return mmap(address, size, protection, flags, file, offset);
}

#pragma GCC visibility pop
}
