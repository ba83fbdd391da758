// Allocations that fail when told: malloc and its kin, which operator new goes through, and anonymous mappings that the
// program itself asks for. glibc's own names for malloc's implementation make this short.
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "tests/faults/injector.h"

namespace faults {

namespace {

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

}  // namespace

void StartMemory() {
  system_mmap = reinterpret_cast<decltype(system_mmap)>(dlsym(RTLD_NEXT, "mmap"));
  started.store(true);
}

void ReportMemory(int report) {
  started.store(false);
  dprintf(report, "memory %lld\nthread-memory %lld\n", static_cast<long long>(main_count.load()),
          static_cast<long long>(thread_count.load()));
}

}  // namespace faults

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
