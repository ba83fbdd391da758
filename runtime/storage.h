// Aligned, counted memory behind tensors. Freed blocks are kept and handed out again, so that a training step that
// allocates the same sizes as the last one touches no new pages; at most four times what was in use at once. Blocks of
// 2 MiB and more ask for huge pages. Under OpContext::shapes_only blocks are address space that reads as zeros, taken
// from the system and given back each time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

inline constexpr size_t kAlignment = 64;  // one cache line, one AVX-512 vector

// One block of memory, 64-byte aligned, with at least 64 readable bytes behind its end.
class Storage {
 public:
  // Uninitialised. Throws Error(kResource), with the size, when there is no memory (under shapes_only: no address
  // space).
  static std::shared_ptr<Storage> Allocate(size_t bytes);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  Storage(size_t bytes, size_t capacity, bool backed) : bytes_(bytes), capacity_(capacity), backed_(backed) {}

  void* data_ = nullptr;
  size_t bytes_;
  size_t capacity_;
  bool backed_;  // by memory of the pool; else made under shapes_only
};

struct MemoryStats {
  int64_t live_bytes;          // held by live Storage objects, those made under shapes_only too
  int64_t peak_bytes;          // the most that live_bytes has been since the last ResetPeakMemory
  int64_t cached_bytes;        // freed, kept for reuse
  int64_t system_allocations;  // blocks that had to be taken from the system since the process began
};
MemoryStats GetMemoryStats();
void ResetPeakMemory();
// Gives the cached blocks back to the system.
void ReleaseCachedMemory();

}  // namespace crosstalk
