// Matrix products in float and double, by our own kernel (blocked-inl.h): threaded, with bits that depend neither on
// the threads nor on a BLAS, and are the same on all targets with fused multiply-adds. OpenBLAS (openblas.h) is the
// peer that `crosstalk bench` measures it against and an oracle of its tests; nothing here needs it.
#pragma once

#include <cstdint>
#include <span>

#include "crosstalk/kernels/gemm/operand.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {
namespace kernels {

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
