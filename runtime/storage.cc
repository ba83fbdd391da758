#include "crosstalk/runtime/storage.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/measure.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"

namespace crosstalk {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// The pool holds at most this many times the memory that was ever in use at once. Training steps of one size stay far
// below; the limit is for programs whose tensors keep changing size, which would keep blocks of every size.
constexpr int64_t kMostHeld = 4;

// The blocks of one capacity.
struct SizeClass {
  std::vector<void*> free;  // has room for all `blocks`, so that freeing one never allocates
  size_t blocks = 0;        // free or in use
};

// Capacities are multiples of 64 · 2^k, of which each k > 0 has 8: sizes that differ a little share a class, and at
// most an eighth of a block is wasted.
int ScaleOf(size_t bytes) { return std::max(0, static_cast<int>(std::bit_width((bytes - 1) / kAlignment)) - 4); }
size_t RoundedCapacity(size_t bytes) { return RoundUp(bytes, kAlignment << ScaleOf(bytes)); }
constexpr size_t kSizeClasses = 8 * 60;
size_t ClassOf(size_t capacity) {
  const int scale = ScaleOf(capacity);
  return 8 * static_cast<size_t>(scale) + capacity / (kAlignment << scale);
}

struct BlockPool {
  SpinLock mutex;
  std::array<SizeClass, kSizeClasses> classes;
  MemoryStats stats{};
  int64_t unbacked = 0;   // of stats.live_bytes, without memory of their own
  int64_t most_live = 0;  // with memory

  int64_t Live() const { return stats.live_bytes - unbacked; }

  void ReleaseAll() {
    for (SizeClass& size_class : classes) {
      for (void* block : size_class.free) std::free(block);
      size_class.blocks -= size_class.free.size();
      size_class.free.clear();
    }
    stats.cached_bytes = 0;
  }
};

// Never destroyed: tensors with static lifetime may be freed after any destructor of ours has run.
BlockPool& GetBlockPool() {
  static BlockPool* pool = [] {
    // fork() copies the lock as it is: taken first, so that no other thread holds it and the child can unlock it.
    pthread_atfork([] { GetBlockPool().mutex.lock(); }, [] { GetBlockPool().mutex.unlock(); },
                   [] { GetBlockPool().mutex.unlock(); });
    return new BlockPool;
  }();
  return *pool;
}

// Large blocks ask for huge pages, of which only those that a block fills are ever touched: fewer page faults, and
// fewer misses when many rows far apart are walked. The system may decline; nothing depends on it.
void* SystemAllocate(size_t capacity) {
  const size_t alignment = capacity < kHugePage ? kAlignment : kHugePage;
  const size_t bytes = RoundUp(capacity + kAlignment, alignment);
  void* data = std::aligned_alloc(alignment, bytes);
  if (data != nullptr && alignment == kHugePage) madvise(data, capacity / kHugePage * kHugePage, MADV_HUGEPAGE);
  return data;
}

// Address space without memory: reads give zeros, and pages that nobody writes cost nothing. The system's overcommit
// limit does not count it.
void* ReserveAddresses(size_t capacity) {
  void* data =
      mmap(nullptr, capacity + kAlignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) Fail(ErrorKind::kResource, "out of address space: ", capacity, " bytes asked for");
  return data;
}

// A block, new or used before. The pool's mutex is held.
void* TakeBlock(BlockPool& pool, size_t bytes, size_t capacity) {
  SizeClass& size_class = pool.classes[ClassOf(capacity)];
  if (!size_class.free.empty()) {
    void* data = size_class.free.back();
    size_class.free.pop_back();
    pool.stats.cached_bytes -= static_cast<int64_t>(capacity);
    return data;
  }
  const int64_t held = pool.Live() + pool.stats.cached_bytes + static_cast<int64_t>(capacity);
  if (held > kMostHeld * std::max(pool.most_live, static_cast<int64_t>(capacity))) pool.ReleaseAll();
  if (size_class.free.capacity() <= size_class.blocks) size_class.free.reserve(2 * size_class.blocks + 1);
  void* data = SystemAllocate(capacity);
  if (data == nullptr) {
    pool.ReleaseAll();
    data = SystemAllocate(capacity);
  }
  if (data == nullptr) {
    Fail(ErrorKind::kResource, "out of memory: ", bytes, " bytes asked for, ", pool.Live(),
         " in use; a smaller batch or recomputation needs less");
  }
  ++size_class.blocks;
  ++pool.stats.system_allocations;
  return data;
}

}  // namespace

std::shared_ptr<Storage> Storage::Allocate(size_t bytes) {
  CROSSTALK_CHECK(bytes < (size_t{1} << 60), "cannot allocate ", bytes, " bytes");
  const TraceScope traced({.kind = TraceEvent::Kind::kAllocation, .bytes = static_cast<int64_t>(bytes)});
  auto storage = std::make_shared<Storage>(Private(), bytes, RoundedCapacity(bytes == 0 ? 1 : bytes),
                                           CurrentContext().shapes_only ? Owner::kShapes : Owner::kPool);
  const int64_t capacity = static_cast<int64_t>(storage->capacity_);
  const bool backed = storage->owner_ == Owner::kPool;
  if (!backed) storage->data_ = ReserveAddresses(storage->capacity_);
  {
    BlockPool& pool = GetBlockPool();
    const std::lock_guard lock(pool.mutex);
    if (backed) storage->data_ = TakeBlock(pool, bytes, storage->capacity_);
    if (!backed) pool.unbacked += capacity;
    pool.stats.live_bytes += capacity;
    pool.stats.peak_bytes = std::max(pool.stats.peak_bytes, pool.stats.live_bytes);
    pool.most_live = std::max(pool.most_live, pool.Live());
  }
  return storage;
}

std::shared_ptr<Storage> Storage::Adopt(void* data, size_t bytes, std::function<void()> release) {
  auto storage = std::make_shared<Storage>(Private(), bytes, bytes, Owner::kHost);
  storage->data_ = data;
  storage->release_ = std::move(release);
  return storage;
}

Storage::~Storage() {
  if (owner_ == Owner::kHost) {
    if (release_) release_();
    return;
  }
  if (data_ == nullptr) return;
  const int64_t capacity = static_cast<int64_t>(capacity_);
  BlockPool& pool = GetBlockPool();
  const std::lock_guard lock(pool.mutex);
  pool.stats.live_bytes -= capacity;
  if (owner_ == Owner::kPool) {
    pool.classes[ClassOf(capacity_)].free.push_back(data_);
    pool.stats.cached_bytes += capacity;
  } else {
    munmap(data_, capacity_ + kAlignment);
    pool.unbacked -= capacity;
  }
}

MemoryStats GetMemoryStats() {
  BlockPool& pool = GetBlockPool();
  std::lock_guard lock(pool.mutex);
  return pool.stats;
}

void ResetPeakMemory() {
  BlockPool& pool = GetBlockPool();
  std::lock_guard lock(pool.mutex);
  pool.stats.peak_bytes = pool.stats.live_bytes;
}

void ReleaseCachedMemory() {
  BlockPool& pool = GetBlockPool();
  std::lock_guard lock(pool.mutex);
  pool.ReleaseAll();
}

void CountMultiplications(int64_t count) {
  if (int64_t* const sum = CurrentContext().multiplications) *sum = SaturatingSum(*sum, count);
}

int64_t CheckedMultiplications(int64_t count) {
  CROSSTALK_CHECK(count != kTooMany, "the sizes are too large: their multiplications do not fit in 63 bits");
  return count;
}

}  // namespace crosstalk
