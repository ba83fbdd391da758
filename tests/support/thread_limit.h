// A system that has no threads to give, for tests of what happens then. It replaces the C library's pthread_create in
// each program that a source of it is linked into; weak, as there may be several.
#pragma once

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include <atomic>
#include <limits>

namespace crosstalk::testing {

inline constexpr int kUnlimited = std::numeric_limits<int>::max();
inline std::atomic<int> threads_left = kUnlimited;

// While one lives, `more` threads can be started in this process; from then on pthread_create fails with EAGAIN. One at
// a time.
class ThreadLimitScope {
 public:
  explicit ThreadLimitScope(int more) { threads_left = more; }
  ~ThreadLimitScope() { threads_left = kUnlimited; }
  ThreadLimitScope(const ThreadLimitScope&) = delete;
};

}  // namespace crosstalk::testing

extern "C" [[gnu::weak, gnu::visibility("default")]] int pthread_create(pthread_t* thread,
                                                                        const pthread_attr_t* attributes,
                                                                        void* (*start)(void*),
                                                                        void* argument) noexcept {
  using crosstalk::testing::threads_left;
  static const auto create = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left != crosstalk::testing::kUnlimited && threads_left.fetch_sub(1) <= 0) return EAGAIN;
  return create(thread, attributes, start, argument);
}
