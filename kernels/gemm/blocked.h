// A blocked product: its sizes, what it multiplies and adds to, and the memory of its packed panels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk::kernels {

// Block sizes in BLIS's terms (Van Zee and van de Geijn 2015); MR and NR, the register tile, depend on the SIMD target.
//
// KC, of k: a fixed part of what a product is, as it decides the order of additions. C is read and written once for
// each block, which costs more than what a shorter panel of B saves.
inline constexpr int64_t kKC = 768;
// NC, of n: KC × NC of packed B is 12 MiB, a part of the third-level cache.
template <typename T>
inline constexpr int64_t kNC = 16384 / int64_t{sizeof(T)};
// MC, of m at most: MC × KC of packed A is 648 KiB and stays in the second-level cache.
template <typename T>
inline constexpr int64_t kMC = 864 / int64_t{sizeof(T)};

// A loop over tasks has so many for each thread, that the last ones end together.
inline constexpr int64_t kTasksPerThread = 4;

// Equal blocks of at most `most`, whole multiples of `unit` except the last.
struct Blocks {
  Blocks(int64_t total, int64_t most, int64_t unit)
      : size(RoundUp(CeilDivide(total, CeilDivide(total, most)), unit)), count(CeilDivide(total, size)) {}
  int64_t size, count;
};

// Working memory, in packed elements: what all tasks of a product share, and what each thread has beside, of which no
// more take part than there are tasks that pack.
struct GemmWorkspace {
  int64_t shared = 0;
  int64_t task = 0;
  int64_t packing_tasks = 0;

  int64_t OfTasks(int64_t threads) const { return task * std::min(threads, packing_tasks); }
};

// A way to compute a single product, threaded unless called from a threaded loop, and its working memory.
template <typename T>
struct GemmProduct {
  void (*multiply)(const GemmArguments<T>& g);
  GemmWorkspace (*workspace)(const GemmArguments<T>& g, int threads);
};

// Those that gemm.cc chooses among, on the SIMD target in use: elements.cc and pairs.cc, which compile beside each
// other.
GemmProduct<float> ProductOfFloats();
GemmProduct<double> ProductOfDoubles();
// Their operands are rounded to bfloat16, in pairs: widened to float, in dot products, in matrix tiles.
GemmProduct<float> ProductOfWidened();
GemmProduct<float> ProductOfDotProducts();
GemmProduct<float> ProductOfTiles();

// Working memory of a product.

// On the stack where little is needed, else from the pool that tensors come from.
template <typename T>
class PackBuffer {
 public:
  explicit PackBuffer(int64_t elements) : storage_(FromPool(elements)) {}
  T* data() { return storage_ == nullptr ? stack_ : static_cast<T*>(storage_->data()); }

  // Null where the stack has room.
  static std::shared_ptr<Storage> FromPool(int64_t elements) {
    return elements <= kOnStack ? nullptr : Storage::Allocate(static_cast<size_t>(elements) * sizeof(T));
  }

 private:
  static constexpr int64_t kOnStack = 16384 / int64_t{sizeof(T)};
  alignas(kAlignment) T stack_[kOnStack];
  std::shared_ptr<Storage> storage_;
};

}  // namespace crosstalk::kernels
