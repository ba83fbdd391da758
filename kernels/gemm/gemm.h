// Matrix products in float and double, by our own kernel (blocked-inl.h): threaded, with bits that depend neither on
// the threads nor on a BLAS, and are the same on all targets with fused multiply-adds. OpenBLAS (openblas.h) is the
// peer that `crosstalk bench` measures it against and an oracle of its tests; nothing here needs it.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/visibility.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// An operand of matrix products as it lies in memory.
namespace kernels {

// Elements of T, float or double, or floats rounded to bfloat16; rows are `stride` elements apart.
template <typename T>
class Operand {
 public:
  Operand() = default;
  Operand(const T* data, int64_t row_stride) : stride(row_stride), data_(data) {}
  Operand(const uint16_t* data, int64_t row_stride) requires std::same_as<T, float>
      : stride(row_stride), data_(data), is_bfloat16_(true) {}

  bool is_bfloat16() const { return is_bfloat16_; }
  const T* data() const { return static_cast<const T*>(data_); }  // unless is_bfloat16
  const uint16_t* bfloat16() const { return static_cast<const uint16_t*>(data_); }
  // use(elements), of the type that they have.
  template <class Use>
  decltype(auto) Visit(const Use& use) const {
    return is_bfloat16_ ? use(bfloat16()) : use(data());
  }
  // The operand that begins so many elements further on.
  Operand operator+(int64_t elements) const {
    Operand moved = *this;
    moved.data_ = is_bfloat16_ ? static_cast<const void*>(bfloat16() + elements) : data() + elements;
    return moved;
  }

  int64_t stride = 0;

 private:
  const void* data_ = nullptr;
  bool is_bfloat16_ = false;
};

enum class Transpose { kNo, kYes };
// Whether k may be cut where it is long and C is small, so that several threads have something to do. By the shape
// alone, m among it: without, a row's bits do not depend on how many rows there are.
enum class Slicing { kNo, kYes };

// C[m, n] = alpha · op(A)[m, k] · op(B)[k, n] + beta · C + bias, row-major; ldc is the distance between rows of
// C. beta = 0 overwrites C whatever it held (NaN too); k = 0 gives beta · C + bias. The bias is added to
// what is otherwise the result, as it is written: the bits are those of an addition after the product.
template <typename T>
struct GemmArguments {
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  int64_t m = 0, n = 0, k = 0;
  T alpha = 1;
  Operand<T> a, b;  // as stored
  T beta = 0;
  T* c = nullptr;
  int64_t ldc = 0;
  const T* bias = nullptr;  // [n], of every row; null: none
  Slicing slicing = Slicing::kYes;
  // In float: what op(A) and op(B) are rounded to; in kBFloat16 each of them may be stored so.
  Precision precision = Precision::kFloat32;
};

// Threaded. T is float or double.
template <typename T>
CROSSTALK_PUBLIC void Gemm(const GemmArguments<T>& arguments);

// One product for each i: A, B and C begin at a + offsets_a[i], b + offsets_b[i], c + offsets_c[i]. The three lists
// have the same length, and no two C overlap. Threaded over products and tiles.
template <typename T>
CROSSTALK_PUBLIC void GemmBatched(const GemmArguments<T>& arguments, std::span<const int64_t> offsets_a,
                                  std::span<const int64_t> offsets_b, std::span<const int64_t> offsets_c);

// Floats of op(B)[k, n] that a product in float packs at a time: its working memory, except some rows of op(A).
int64_t GemmPackedFloats(int64_t k, int64_t n);

}  // namespace kernels
}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk::kernels {

// Batch-interleaved small matrix products, one for each lane of a vector: where the batch dimension of a contraction is
// the contiguous one in memory, transposing it away would cost more than the products.

// c[r, j, l] = Σ_k a[r, k, l] · b[k, j, l]. Lanes l are contiguous in all three; the other strides are in elements.
template <typename T>
struct InterleavedGemmArguments {
  int64_t rows = 0, columns = 0, inner = 0, lanes = 0;
  const T* a = nullptr;
  int64_t a_row = 0, a_inner = 0;
  const T* b = nullptr;
  int64_t b_inner = 0, b_column = 0;
  T* c = nullptr;
  int64_t c_row = 0, c_column = 0;
  Precision precision = Precision::kFloat32;  // in float: what a and b are rounded to
};

// One such product for each i, at a + offsets_a[i], b + offsets_b[i], c + offsets_c[i]; no two c overlap. inner ≥ 1.
// Threaded over products, blocks of lanes and blocks of rows; each sum runs over k in order. T is float or double.
template <typename T>
void InterleavedGemmBatched(const InterleavedGemmArguments<T>& arguments, std::span<const int64_t> offsets_a,
                            std::span<const int64_t> offsets_b, std::span<const int64_t> offsets_c);

}  // namespace crosstalk::kernels
