// A thread pool of our own, bound to OpenMP's places.
//
// OpenMP gives its count of processors, and the places of OMP_PLACES and OMP_PROC_BIND. It does not give the loops:
// `omp for` ends with a barrier at which the caller waits for every thread, even one that took no tile because the
// system has not let it run: on a machine that is busy otherwise, milliseconds for each of a step's thousands of loops.
// It also spins or sleeps by the host program's settings, and starts a new team for each calling thread. Nor does it
// give the threads: where the system has none left, it ends the process. Here each thread serves loops for as long as
// the process lives:
//
//   caller: publishes a loop, takes tiles like everybody, and leaves when the last tile is done
//   thread: waits for a loop, spinning for some 100 µs and then asleep, and takes tiles from it by atomic counters
//
// There is one counter for tiles that begin in order; of a local loop each thread has one, of its own part of the
// tiles, and goes on with the others' parts. A tile is one thread's from start to end, so no bit depends on who takes
// it.
#include "crosstalk/runtime/parallel.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/measure.h"

namespace crosstalk {
namespace {

std::atomic<int> g_threads{0};                                         // 0: not set yet
thread_local bool t_in_parallel = false;                               // this thread is running a body
thread_local double t_work = std::numeric_limits<double>::infinity();  // LoopWork, in nanoseconds
thread_local int t_index = 0;                                          // of the pool's threads 1, 2, …; 0 for callers

// How often to look before sleeping: some 100 µs, longer than the gaps between the loops of a training step. None where
// the user asks OpenMP's threads to wait passively.
int SpinLimit() {
  static const int limit = [] {
    const char* policy = std::getenv("OMP_WAIT_POLICY");
    return policy != nullptr && strcasecmp(policy, "passive") == 0 ? 0 : 4000;
  }();
  return limit;
}

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // most cores take "yield" for nothing at all
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// Looks for a while whether `value` is no longer `old`: true as soon as it is.
bool ChangesSoon(const std::atomic<int>& value, int old) {
  for (int i = SpinLimit(); i > 0; --i) {
    if (value.load(std::memory_order_acquire) != old) return true;
    Pause();
  }
  return false;
}

// One ParallelFor under way, shared by its caller and every thread that looks at it. `body` lives until the last tile
// is done; nobody calls it after that.
class Loop {
 public:
  // `parts`: 1 for tiles that begin in order.
  Loop(int64_t tiles, int64_t parts, FunctionRef<void(int64_t)> body, int helpers)
      : tiles_(tiles),
        body_(body),
        trace_(CurrentContext().trace),
        helpers_(helpers),
        parts_(static_cast<size_t>(parts)),
        failed_tile_(tiles) {
    for (int64_t i = 0; i < parts; ++i) {
      Part& part = parts_[static_cast<size_t>(i)];
      part.next.store(tiles * i / parts, std::memory_order_relaxed);
      part.end = tiles * (i + 1) / parts;
    }
  }

  // True if the calling thread may take part.
  bool Join() {
    const bool any = std::any_of(parts_.begin(), parts_.end(),
                                 [](const Part& part) { return part.next.load(std::memory_order_relaxed) < part.end; });
    return any && helpers_.fetch_sub(1, std::memory_order_relaxed) > 0;
  }

  // Takes tiles until none is left, those of the thread's own part first.
  void Work() {
    TraceEvent traced = {.kind = TraceEvent::Kind::kTiles, .thread = t_index};
    if (trace_) traced.begin = trace_->seconds();
    for (size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[(static_cast<size_t>(t_index) + i) % parts_.size()];
      for (;;) {
        const int64_t tile = part.next.fetch_add(1, std::memory_order_relaxed);
        if (tile >= part.end) break;
        // Tiles above one that threw are not begun. Those below still are, so that which exception is kept does not
        // depend on the threads.
        if (tile <= failed_tile_.load(std::memory_order_relaxed)) Run(tile);
        if (trace_) traced.end = trace_->seconds();
        if (finished_.fetch_add(1, std::memory_order_acq_rel) + 1 == tiles_) {
          done_.store(1, std::memory_order_release);
          done_.notify_all();
        }
      }
    }
    if (trace_ && traced.end > 0) trace_->Add(traced);
  }

  // Waits for the tiles that others have begun; rethrows. The exception is then the caller's alone: a thread that
  // leaves the loop later does not destroy it.
  void Finish() {
    if (!ChangesSoon(done_, 0)) done_.wait(0, std::memory_order_acquire);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  // A range of tiles, and which of them begins next. Each has cache lines of its own.
  struct alignas(64) Part {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };

  void Run(int64_t tile) {
    t_in_parallel = true;
    try {
      body_(tile);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (tile < failed_tile_.load(std::memory_order_relaxed)) {
        error_ = std::current_exception();
        failed_tile_.store(tile, std::memory_order_relaxed);
      }
    }
    t_in_parallel = false;
  }

  const int64_t tiles_;
  const FunctionRef<void(int64_t)> body_;
  const std::shared_ptr<Trace> trace_;
  std::atomic<int> helpers_;  // how many threads beside the caller may still join
  std::vector<Part> parts_;
  std::atomic<int64_t> finished_{0};
  std::atomic<int> done_{0};
  std::mutex mutex_;
  std::exception_ptr error_;
  std::atomic<int64_t> failed_tile_;
};

// The processors of thread `index`, the first caller being 0: of place `index` where the user binds threads to places
// (OMP_PROC_BIND, OMP_PLACES), else nullopt. A caller asks: a thread of the pool may begin when the program ends, and
// the OpenMP library is not there for it.
std::optional<cpu_set_t> ProcessorsOf(int index) {
  const int places = omp_get_num_places();
  if (omp_get_proc_bind() == omp_proc_bind_false || places < 1) return std::nullopt;
  const int place = index % places;
  std::vector<int> processors(static_cast<size_t>(omp_get_place_num_procs(place)));
  omp_get_place_proc_ids(place, processors.data());
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(processor, &set);
  return set;
}

// While one lives, threads that are started leave the program's signals to the program's threads, except those that a
// thread's own doing raises, and a profiler's.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF}) {
      sigdelset(&blocked, signal);
    }
    pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// The threads beside the callers.
class ThreadPool {
 public:
  void Run(const std::shared_ptr<Loop>& loop, int helpers) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      Grow(helpers);
      loops_.push_back(loop);
    }
    published_.fetch_add(1, std::memory_order_release);
    published_.notify_all();
    loop->Work();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      loops_.erase(std::find(loops_.begin(), loops_.end(), loop));
    }
    loop->Finish();
  }

  // Whether a loop would have to wake a thread first.
  bool asleep() const {
    const int asleep = asleep_.load(std::memory_order_relaxed);
    return asleep > 0 && asleep >= threads_.load(std::memory_order_relaxed);
  }

  void Lock() { mutex_.lock(); }
  void Unlock() { mutex_.unlock(); }

 private:
  // At least `threads` of them. mutex_ is held.
  void Grow(int threads) {
    if (threads <= threads_) return;
    const SignalsBlocked blocked;
    while (threads_ < threads) {
      try {
        const int index = threads_ + 1;
        std::thread([this, index, processors = ProcessorsOf(index)] {
          if (processors) sched_setaffinity(0, sizeof(*processors), &*processors);
          t_index = index;
          Serve();
        }).detach();
      } catch (const std::system_error& error) {
        FailField(ErrorKind::kResource, "threads", "the system gave ", threads_ + 1, " of ", threads + 1, " (",
                  error.code().message(), "); ask for fewer");
      }
      ++threads_;
    }
  }

  [[noreturn]] void Serve() {
    for (;;) {
      const int published = published_.load(std::memory_order_acquire);
      while (const std::shared_ptr<Loop> loop = Find()) loop->Work();
      if (ChangesSoon(published_, published)) continue;
      asleep_.fetch_add(1, std::memory_order_relaxed);
      published_.wait(published, std::memory_order_acquire);
      asleep_.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  std::shared_ptr<Loop> Find() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const std::shared_ptr<Loop>& loop : loops_) {
      if (loop->Join()) return loop;
    }
    return nullptr;
  }

  std::mutex mutex_;
  std::atomic<int> threads_{0};
  std::vector<std::shared_ptr<Loop>> loops_;
  std::atomic<int> published_{0};
  std::atomic<int> asleep_{0};  // threads that wait for a loop and no longer look
};

// Never destroyed: its threads sleep on it until the process ends.
ThreadPool& GetThreadPool() {
  static ThreadPool* pool = [] {
    // fork() copies the lock as it is: taken first, so that no other thread holds it and the child can unlock it.
    pthread_atfork([] { GetThreadPool().Lock(); }, [] { GetThreadPool().Unlock(); }, [] { GetThreadPool().Unlock(); });
    return new ThreadPool;
  }();
  return *pool;
}

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

namespace {

// What a thread that takes part works for at least: to hand a part over takes about a microsecond, and what one thread
// wrote comes to the other from its cache.
constexpr double kLeastNanoseconds = 4'000;
// The least work for which a thread that sleeps is woken: it takes some 50 µs to come.
constexpr double kWorthWaking = 100'000;
constexpr double kNanosecondsOfRange = 2'000;
// What a thread does in a nanosecond: of a core that makes some 16 to 100 multiply-adds. An estimate that is off by a
// factor of two costs no more than a hand-over.
constexpr double kMultiplications = 32, kMultiplicationsOfSmallProducts = 16;
constexpr double kElements = 1;

}  // namespace

int ThreadsOfLoop() {
  if (t_in_parallel) return 1;
  return static_cast<int>(std::clamp(t_work / kLeastNanoseconds, 1.0, static_cast<double>(NumThreads())));
}

LoopWork LoopWork::OfProducts(double multiplications) { return LoopWork(multiplications / kMultiplications); }
LoopWork LoopWork::OfSmallProducts(double multiplications) {
  return LoopWork(multiplications / kMultiplicationsOfSmallProducts);
}
LoopWork LoopWork::OfElements(double elements) { return LoopWork(elements / kElements); }
LoopWork::LoopWork(double nanoseconds) : before_(t_work) { t_work = std::min(before_, nanoseconds); }
LoopWork::~LoopWork() { t_work = before_; }

namespace {

// How many threads may help the caller with a loop.
int HelpersOfLoop(int64_t tiles, int most_threads) {
  const int helpers = std::min(ThreadsOfLoop(), most_threads) - 1;
  const bool alone = helpers <= 0 || tiles <= 1 || (t_work < kWorthWaking && GetThreadPool().asleep());
  return alone ? 0 : helpers;
}

void RunLoop(int64_t tiles, FunctionRef<void(int64_t)> body, TileOrder order, int helpers) {
  const TraceScope traced({.kind = TraceEvent::Kind::kLoop});
  const int64_t parts = order == TileOrder::kInOrder ? 1 : std::min<int64_t>(helpers + 1, tiles);
  GetThreadPool().Run(std::make_shared<Loop>(tiles, parts, body, helpers), helpers);
}

}  // namespace

void ParallelFor(int64_t tiles, FunctionRef<void(int64_t)> body, TileOrder order, int most_threads) {
  if (const int helpers = HelpersOfLoop(tiles, most_threads)) return RunLoop(tiles, body, order, helpers);
  for (int64_t tile = 0; tile < tiles; ++tile) body(tile);
}

void ParallelForRange(int64_t count, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  CROSSTALK_DCHECK(grain >= 1);
  const int64_t tiles = CeilDivide(count, grain);
  const LoopWork work(std::isinf(t_work) ? static_cast<double>(tiles) * kNanosecondsOfRange : t_work);
  ParallelFor(
      tiles, [&](int64_t tile) { body(tile * grain, std::min(count, (tile + 1) * grain)); }, TileOrder::kLocal);
}

void ParallelForWithScratch(int64_t tasks, int slots, TileOrder order, FunctionRef<void(int64_t, int)> body) {
  const int helpers = HelpersOfLoop(tasks, slots);
  if (helpers == 0) {
    for (int64_t task = 0; task < tasks; ++task) body(task, 0);
    return;
  }
  std::vector<std::atomic<bool>> taken(static_cast<size_t>(slots));
  // There are as many slots as threads, so one is free.
  const auto take = [&] {
    for (;;) {
      for (size_t slot = 0; slot < taken.size(); ++slot) {
        bool expected = false;
        if (taken[slot].compare_exchange_strong(expected, true, std::memory_order_acquire)) return slot;
      }
      std::this_thread::yield();
    }
  };
  const auto run = [&](int64_t task) {
    const size_t slot = take();
    // Given back where the body throws too: in local order the thread goes on with lower tasks.
    const auto give_back = [&] { taken[slot].store(false, std::memory_order_release); };
    try {
      body(task, static_cast<int>(slot));
    } catch (...) {
      give_back();
      throw;
    }
    give_back();
  };
  RunLoop(tasks, run, order, helpers);
}

void SpinLock::Wait() {
  constexpr int kSpinLimit = 1000;
  for (int i = 0; taken_.load(std::memory_order_relaxed) || taken_.exchange(true, std::memory_order_acquire); ++i) {
    if (i < kSpinLimit) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void OrderedReduction::WaitFor(int64_t sum, int64_t turn) const {
  // The tile of the turn before began earlier and has mostly added already: a short spin, then the processor is given
  // to the thread that computes it.
  constexpr int kSpinLimit = 1000;
  const std::atomic<int64_t>& done = done_[static_cast<size_t>(sum)];
  for (int i = 0; done.load(std::memory_order_acquire) != turn; ++i) {
    if (i >= kSpinLimit) std::this_thread::yield();
  }
}

}  // namespace crosstalk
