// Aligned, counted memory of tensors. Freed blocks are kept and handed out again, so that a training step that
// allocates the same sizes as the last one touches no new pages; at most four times what was in use at once. Blocks of
// 2 MiB and more ask for huge pages. Under OpContext::shapes_only blocks are address space that reads as zeros, taken
// from the system and given back each time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/op_context.h"

#pragma GCC visibility push(default)
namespace crosstalk {

inline constexpr size_t kAlignment = 64;  // one cache line, one AVX-512 vector

// One block of memory, 64-byte aligned, with at least 64 readable bytes past its end; or a host's, which is neither.
class Storage {
 public:
  // Uninitialised. Throws Error(kResource), with the size, when there is no memory (under shapes_only: no address
  // space).
  static std::shared_ptr<Storage> Allocate(size_t bytes);
  // The host's memory, which is not copied. `release`, which may be empty and must not throw, is called once when
  // nothing refers to it any more, by whichever thread that is; if this throws, by the caller. As kernels read a vector
  // past the end of some parameters, it must not hold any.
  static std::shared_ptr<Storage> Adopt(void* data, size_t bytes, std::function<void()> release);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  bool adopted() const { return owner_ == Owner::kHost; }

 private:
  enum class Owner {
    kPool,
    kShapes,  // made under shapes_only
    kHost,
  };
  struct Private {};  // what only Allocate and Adopt can give

 public:
  Storage(Private, size_t bytes, size_t capacity, Owner owner) : bytes_(bytes), capacity_(capacity), owner_(owner) {}

 private:
  void* data_ = nullptr;
  size_t bytes_;
  size_t capacity_;
  Owner owner_;
  std::function<void()> release_;  // of the host's
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
#pragma GCC visibility pop

namespace crosstalk {

// Execution of shapes alone: a training step that computes every shape and allocates every tensor as a real one does,
// but runs no kernel and touches no memory. It answers within milliseconds how much memory a step takes and how many
// multiplications, for models of any size.

// Under OpContext::shapes_only, on its thread:
// - Storage is address space that the system backs with nothing, counted in MemoryStats as ever;
// - kernels do not run (see Launch), nor do Tensor's own fills and copies, so that tensors made under it read as
//   zeros (Item() is 0), except data that the host itself writes (FromValues, data());
// - ids and targets are not checked against their bounds, and each row of a loss counts;
// - tensors made outside, such as parameters, are as they were when the scope ends.
// Ops, Backward, Initializer and the optimizers' updates all obey it. MemoryStats then goes through the values of a
// real step. (A real product packs its operands in each thread that takes part; here every thread takes part that
// could.)

// Adds to OpContext::multiplications: those of the equations that are evaluated, forward, once each: of matrix
// products, attention (the same whichever implementation computes it) and the classifier within a loss. What Backward
// computes, also again, is not counted. `count` may be kTooMany (runtime/math.h), as where the sum does not fit.
void CountMultiplications(int64_t count);

// The count, to be shown; a usage error where it is kTooMany.
int64_t CheckedMultiplications(int64_t count);

// The gate before everything that reads or writes the elements of tensors: runs kernel() unless only shapes count.
// Allocate in front of it.
template <typename Kernel>
void Launch(Kernel&& kernel) {
  if (!CurrentContext().shapes_only) std::forward<Kernel>(kernel)();
}

// Launch of kernel(T()), T the float type; anything but float and double is a usage error that names `op`.
//   Launch("exp", x.dtype(), [&](auto zero) { using T = decltype(zero); … });
template <typename Kernel>
void Launch(const char* op, DType dtype, Kernel&& kernel) {
  DispatchFloat(op, dtype, [&](auto zero) { Launch([&] { kernel(zero); }); });
}

}  // namespace crosstalk
