#include "runtime/parallel.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

#include "runtime/check.h"

namespace crosstalk {
namespace {

int AvailableProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

std::atomic<int> g_threads{0};            // 0: not set yet
thread_local bool t_in_parallel = false;  // this thread is running a body

}  // namespace

int NumThreads() {
  int threads = g_threads.load(std::memory_order_relaxed);
  if (threads == 0) {
    threads = AvailableProcessors();
    g_threads.store(threads, std::memory_order_relaxed);
  }
  return threads;
}

void SetNumThreads(int threads) {
  CROSSTALK_CHECK(threads >= 1 && threads <= 4096, "the number of threads must be 1 … 4096, not ", threads);
  g_threads.store(threads, std::memory_order_relaxed);
}

void ParallelFor(int64_t tiles, const std::function<void(int64_t)>& body) {
  const int threads = NumThreads();
  if (threads == 1 || tiles <= 1 || t_in_parallel) {
    for (int64_t tile = 0; tile < tiles; ++tile) body(tile);
    return;
  }
  // Always the whole team, even for fewer tiles: libgomp ends threads that a smaller team leaves over, and starting
  // them again costs more than their waking.
  // An exception must not leave the region: the one of the lowest tile is kept, and tiles above it are not started
  // (those below still are, so that which one is kept does not depend on the threads).
  std::mutex mutex;
  std::exception_ptr error;
  std::atomic<int64_t> error_tile{tiles};
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (int64_t tile = 0; tile < tiles; ++tile) {
    if (tile > error_tile.load(std::memory_order_relaxed)) continue;
    t_in_parallel = true;
    try {
      body(tile);
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex);
      if (tile < error_tile.load(std::memory_order_relaxed)) {
        error = std::current_exception();
        error_tile.store(tile, std::memory_order_relaxed);
      }
    }
    t_in_parallel = false;
  }
  if (error) std::rethrow_exception(error);
}

void ParallelForRange(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  CROSSTALK_DCHECK(grain >= 1);
  const int64_t tiles = (count + grain - 1) / grain;
  ParallelFor(tiles, [&](int64_t tile) { body(tile * grain, std::min(count, (tile + 1) * grain)); });
}

}  // namespace crosstalk
