// Allocations by operator new that fail when told. It replaces operator new in each program that a source of it is
// linked into; weak, as there may be several.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

namespace crosstalk::testing {

inline thread_local int64_t allocations_left = -1;  // until they fail; negative: without end

// While one lives, this thread's allocations fail, except the first `successes`.
class FailingAllocations {
 public:
  explicit FailingAllocations(int64_t successes) { allocations_left = successes; }
  ~FailingAllocations() { allocations_left = -1; }
  FailingAllocations(const FailingAllocations&) = delete;
};

// f() with each of its allocations failing in turn, it and those after it, until it needs no more. Returns how often
// f() threw std::bad_alloc; calls check() each time, with memory.
template <typename F, typename Check>
int64_t FailEachAllocation(const F& f, const Check& check) {
  for (int64_t successes = 0;; ++successes) {
    try {
      const FailingAllocations failing(successes);
      f();
      return successes;
    } catch (const std::bad_alloc&) {
    }
    check();
  }
}

}  // namespace crosstalk::testing

[[gnu::weak]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  using crosstalk::testing::allocations_left;
  if (allocations_left == 0) return nullptr;
  if (allocations_left > 0) --allocations_left;
  return std::malloc(size);
}
[[gnu::weak]] void* operator new(size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::weak]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::weak]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::weak]] void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
