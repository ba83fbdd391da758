// A system that has no threads to give, for tests of what happens then.
#pragma once

namespace crosstalk::testing {

// While one lives, `more` threads can be started in this process; from then on pthread_create fails with EAGAIN. One at
// a time.
class ThreadLimitScope {
 public:
  explicit ThreadLimitScope(int more);
  ~ThreadLimitScope();
  ThreadLimitScope(const ThreadLimitScope&) = delete;
};

}  // namespace crosstalk::testing
