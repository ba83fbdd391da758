// Matrix products. float: our own kernel (gemm_float.cc), faster here than single-threaded OpenBLAS with its best
// kernels, threaded, and with bits that depend neither on threads nor on the machine's BLAS, and are the same on all
// targets with fused multiply-adds. double: OpenBLAS (kernels/gemm/openblas.h), one single-threaded call for each tile,
// tiles cut by shape alone; it is there for checking.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace crosstalk::kernels {

enum class Transpose { kNo, kYes };

// C[m, n] = alpha · op(A)[m, k] · op(B)[k, n] + beta · C, row-major; lda, ldb, ldc are the distances between rows as
// stored. beta = 0 overwrites C whatever it held (NaN too); k = 0 gives beta · C.
template <typename T>
struct GemmArguments {
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  int64_t m = 0, n = 0, k = 0;
  T alpha = 1;
  const T* a = nullptr;
  int64_t lda = 0;
  const T* b = nullptr;
  int64_t ldb = 0;
  T beta = 0;
  T* c = nullptr;
  int64_t ldc = 0;
};

// Threaded. T is float or double.
template <typename T>
void Gemm(const GemmArguments<T>& arguments);

// One product for each i: A, B and C begin at a + offsets_a[i], b + offsets_b[i], c + offsets_c[i]. The three lists
// have the same length, and no two C overlap. Threaded over products and tiles.
template <typename T>
void GemmBatched(const GemmArguments<T>& arguments, std::span<const int64_t> offsets_a,
                 std::span<const int64_t> offsets_b, std::span<const int64_t> offsets_c);

// Floats of op(B)[k, n] that a product in float packs at a time: its working memory, but for some rows of op(A).
int64_t GemmPackedFloats(int64_t k, int64_t n);

// OpenBLAS's name for the kernel set in use ("SkylakeX", "Haswell", …). The bits of products in double depend on it.
std::string BlasKernelName();

// Compares OpenBLAS's products of a few shapes (k = 0, beta = 0 over NaN, every transpose, odd sizes) with plain loops.
// Empty, or a message that names the first product that is wrong. The first product in double of a process runs it and
// throws Error(kFailure) with that message.
std::string BlasSelfTest();

}  // namespace crosstalk::kernels
