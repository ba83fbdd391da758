// Threads of their own, beside those that compute (parallel.h).
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "crosstalk/runtime/check.h"

namespace crosstalk {

// A thread that executes f(), which must not throw. Error(kResource) where the system gives no more threads.
template <typename F>
std::thread StartThread(F&& f) {
  try {
    return std::thread(std::forward<F>(f));
  } catch (const std::system_error& error) {
    Fail(ErrorKind::kResource, "cannot start a thread: ", error.code().message(),
         "; end other programs, or raise the limit of processes (ulimit -u)");
  }
}

}  // namespace crosstalk
