#include "runtime/storage.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/check.h"

namespace crosstalk {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// Free blocks by capacity. Capacities are rounded so that sizes that differ a little share a class: at most an
// eighth of a block is wasted.
struct Pool {
  std::mutex mutex;
  std::map<size_t, std::vector<void*>> free_blocks;
  MemoryStats stats{};

  void ReleaseAll() {
    for (auto& [capacity, blocks] : free_blocks) {
      for (void* block : blocks) std::free(block);
    }
    free_blocks.clear();
    stats.cached_bytes = 0;
  }
};

// Never destroyed: tensors with static lifetime may be freed after any destructor of ours has run.
Pool& GetPool() {
  static Pool* pool = new Pool;
  return *pool;
}

size_t RoundedCapacity(size_t bytes) {
  size_t step = kAlignment;
  while (step * 16 < bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

// Large blocks ask for huge pages, of which only those that a block fills are ever touched: fewer page faults, and
// fewer misses when many rows far apart are walked. The system may decline; nothing depends on it.
void* SystemAllocate(size_t capacity) {
  const size_t alignment = capacity < kHugePage ? kAlignment : kHugePage;
  const size_t bytes = (capacity + kAlignment + alignment - 1) / alignment * alignment;
  void* data = std::aligned_alloc(alignment, bytes);
  if (data != nullptr && alignment == kHugePage) madvise(data, capacity / kHugePage * kHugePage, MADV_HUGEPAGE);
  return data;
}

}  // namespace

std::shared_ptr<Storage> Storage::Allocate(size_t bytes) {
  Pool& pool = GetPool();
  CROSSTALK_CHECK(bytes < (size_t{1} << 60), "cannot allocate ", bytes, " bytes");
  const size_t capacity = RoundedCapacity(bytes == 0 ? 1 : bytes);
  std::lock_guard<std::mutex> lock(pool.mutex);
  void* data = nullptr;
  auto blocks = pool.free_blocks.find(capacity);
  if (blocks != pool.free_blocks.end() && !blocks->second.empty()) {
    data = blocks->second.back();
    blocks->second.pop_back();
    pool.stats.cached_bytes -= static_cast<int64_t>(capacity);
  } else {
    data = SystemAllocate(capacity);
    if (data == nullptr) {
      pool.ReleaseAll();
      data = SystemAllocate(capacity);
    }
    if (data == nullptr) {
      Fail(ErrorKind::kResource, "out of memory: ", bytes, " bytes asked for, ", pool.stats.live_bytes,
           " in use; a smaller batch or recomputation needs less");
    }
    ++pool.stats.system_allocations;
  }
  pool.stats.live_bytes += static_cast<int64_t>(capacity);
  pool.stats.peak_bytes = std::max(pool.stats.peak_bytes, pool.stats.live_bytes);
  return std::shared_ptr<Storage>(new Storage(data, bytes, capacity));
}

Storage::~Storage() {
  Pool& pool = GetPool();
  std::lock_guard<std::mutex> lock(pool.mutex);
  pool.free_blocks[capacity_].push_back(data_);
  pool.stats.live_bytes -= static_cast<int64_t>(capacity_);
  pool.stats.cached_bytes += static_cast<int64_t>(capacity_);
}

MemoryStats GetMemoryStats() {
  Pool& pool = GetPool();
  std::lock_guard<std::mutex> lock(pool.mutex);
  return pool.stats;
}

void ResetPeakMemory() {
  Pool& pool = GetPool();
  std::lock_guard<std::mutex> lock(pool.mutex);
  pool.stats.peak_bytes = pool.stats.live_bytes;
}

void ReleaseCachedMemory() {
  Pool& pool = GetPool();
  std::lock_guard<std::mutex> lock(pool.mutex);
  pool.ReleaseAll();
}

}  // namespace crosstalk
