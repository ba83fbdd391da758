// OpenBLAS, loaded at first use with the kernel set that this CPU deserves. Left to itself, it picks one by a table of
// CPU models, and a CPU newer than the table gets SSE3 kernels: five times slower. It reads its choice from
// OPENBLAS_CORETYPE only while it is being loaded, which is why it is not linked but opened here.
#pragma once

#include <string>

namespace crosstalk::kernels {

inline constexpr int kCblasRowMajor = 101;
inline constexpr int kCblasNoTranspose = 111;
inline constexpr int kCblasTranspose = 112;

struct OpenBlas {
  // cblas_sgemm and cblas_dgemm; the first three arguments are CBLAS's numbers above.
  void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a, int lda,
                const float* b, int ldb, float beta, float* c, int ldc);
  void (*dgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha, const double* a,
                int lda, const double* b, int ldb, double beta, double* c, int ldc);
  std::string core;     // the kernel set in use: "SkylakeX"
  std::string warning;  // "", or why it is not the best for this CPU: for the command to show, once
};

// Loads it on the first call (thread-safe) and sets it to one thread of its own: the bits of its results depend on
// their number. A kernel set that the user chose by OPENBLAS_CORETYPE is left alone. If the host program has OpenBLAS
// loaded already, that copy is used as it is, but for its number of threads. Throws Error(kFailure) if there is no
// OpenBLAS, or it keeps its threads.
const OpenBlas& GetOpenBlas();

}  // namespace crosstalk::kernels
