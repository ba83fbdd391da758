// The number of threads for a while, and the one before it again at the end.
#pragma once

#include "crosstalk/runtime/parallel.h"

namespace crosstalk {

// Computes with other threads for as long as it lives.
class ThreadsScope {
 public:
  explicit ThreadsScope(int threads) : before_(NumThreads()) { SetNumThreads(threads); }
  ~ThreadsScope() { SetNumThreads(before_); }
  ThreadsScope(const ThreadsScope&) = delete;
  ThreadsScope& operator=(const ThreadsScope&) = delete;

 private:
  int before_;
};

}  // namespace crosstalk
