#include "tests/support/thread_limit.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include <atomic>
#include <limits>

namespace {

constexpr int kUnlimited = std::numeric_limits<int>::max();
std::atomic<int> g_more{kUnlimited};

}  // namespace

// In the place of the C library's, for every thread of the test program.
extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                                     const pthread_attr_t* attributes,
                                                                     void* (*start)(void*), void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (g_more.load() != kUnlimited && g_more.fetch_sub(1) <= 0) return EAGAIN;
  return create(thread, attributes, start, argument);
}

namespace crosstalk::testing {

ThreadLimitScope::ThreadLimitScope(int more) { g_more = more; }
ThreadLimitScope::~ThreadLimitScope() { g_more = kUnlimited; }

}  // namespace crosstalk::testing
