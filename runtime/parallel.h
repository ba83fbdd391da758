// Threads: loops over tiles that shape alone decides. Which thread takes which tile never changes a bit, because a
// tile is computed start to end by one thread and partial results are combined in tile order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "crosstalk/runtime/function_ref.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// The processors that this process may use: those of its affinity mask, or the quota of its control groups, rounded up,
// if that is less.
int AvailableProcessors();

// The number of threads that ParallelFor uses, counting the caller: all processors available to this process unless
// set. It is our own number, and the host program's OpenMP settings are not changed. The threads are our own too, but
// follow OMP_WAIT_POLICY, OMP_PROC_BIND and OMP_PLACES. A loop for which the system does not give enough of them is
// Error(kResource), before any tile has begun.
int NumThreads();
void SetNumThreads(int threads);  // 1 … 4096, else a usage error
// Those that a loop begun here would use: 1 within a loop's body.
int ThreadsOfLoop();

// kInOrder: tiles are begun in order, so that a tile may wait for lower ones, as long as none of them throws.
// kLocal: each thread begins with a part of the tiles of its own, the same part in each loop, before it helps with the
// others', so that it finds in its cache what it wrote there in the loop before. No tile may wait for another.
enum class TileOrder { kInOrder, kLocal };

// Runs body(tile) for tile = 0 … tiles-1, each once, on up to NumThreads() threads. A thread runs a tile to its end. An
// exception in a body is rethrown here after all threads have stopped (the one of the lowest tile that threw). A nested
// call runs on the calling thread alone. `most_threads`: if there is working memory for so many only.
void ParallelFor(int64_t tiles, FunctionRef<void(int64_t tile)> body, TileOrder order = TileOrder::kInOrder,
                 int most_threads = std::numeric_limits<int>::max());

// The same over [0, count) in ranges of `grain` (the last one shorter), in local order: body(begin, end). `grain` must
// not depend on the number of threads where the bits of the result could. A range should take some microseconds: it
// counts as 2 where no LoopWork says what the loop takes.
void ParallelForRange(int64_t count, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> body);

// The same for tasks that need working memory: body(task, slot) for task = 0 … tasks - 1 on at most `slots` threads; of
// the tasks that run at the same time no two have the same slot, 0 … slots - 1.
void ParallelForWithScratch(int64_t tasks, int slots, TileOrder order, FunctionRef<void(int64_t task, int slot)> body);

}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk {

// The number of threads for a while, and the one before it again at the end.

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

// While one lives, loops that this thread begins take no more threads than their work pays for. Each thread that takes
// part has 4 microseconds to work; one that sleeps is woken for 100.
class LoopWork {
 public:
  // What a loop takes on one thread: so long, or at the rates of parallel.cc.
  explicit LoopWork(double nanoseconds);
  static LoopWork OfProducts(double multiplications);       // whose operands are packed, or lie well
  static LoopWork OfSmallProducts(double multiplications);  // in batches, of a few rows or heads each
  static LoopWork OfElements(double elements);              // that are read and written one by one
  ~LoopWork();
  LoopWork(const LoopWork&) = delete;
  LoopWork& operator=(const LoopWork&) = delete;

 private:
  double before_;
};

// A lock around some nanoseconds of work, which threads of a loop take often: a thread that finds it taken looks again
// rather than sleep, and after a while lets others run.
class SpinLock {
 public:
  void lock() {
    if (taken_.exchange(true, std::memory_order_acquire)) Wait();
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  void Wait();
  std::atomic<bool> taken_{false};
};

// Sums to which several tiles of a ParallelFor add, each in its turn: the order of additions, and with it every bit, is
// that of the tiles, not of the threads.

// Any number of sums, each with its own turns 0, 1, 2, …. A tile whose turn is t calls WaitFor(sum, t), adds, and calls
// Done(sum). It must begin after the tile of turn t - 1: ParallelFor begins tiles in order (TileOrder::kInOrder), so
// a thread only waits for a tile that is under way.
class OrderedReduction {
 public:
  explicit OrderedReduction(int64_t sums) : done_(static_cast<size_t>(sums)) {}
  // Returns once `turn` others have added to the sum.
  void WaitFor(int64_t sum, int64_t turn) const;
  void Done(int64_t sum) { done_[static_cast<size_t>(sum)].fetch_add(1, std::memory_order_release); }

 private:
  std::vector<std::atomic<int64_t>> done_;
};

}  // namespace crosstalk
