// OpenBLAS, opened at run time where somebody asks for it: the peer of `crosstalk bench` and an oracle of the tests.
// It is loaded with the best kernel set for this CPU. Left to itself, it picks one by a table of CPU models, and a CPU
// newer than the table gets SSE3 kernels: five times slower. It reads its choice from OPENBLAS_CORETYPE only while it
// is being loaded, so it is opened here instead of linked.
#pragma once

#include <string>

#include "crosstalk/kernels/gemm/gemm.h"

namespace crosstalk::kernels {

struct OpenBlas {
  // cblas_sgemm and cblas_dgemm; the first three arguments are CBLAS's numbers.
  void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a, int lda,
                const float* b, int ldb, float beta, float* c, int ldc) = nullptr;
  void (*dgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha, const double* a,
                int lda, const double* b, int ldb, double beta, double* c, int ldc) = nullptr;
  // Why it cannot be used, or "". The functions are null where there is a reason.
  std::string unavailable;
  std::string core;  // the kernel set in use: "SkylakeX"; "none" where it cannot be used
  // "", or why it cannot be used or is not the best for this CPU: for the command to show, once.
  std::string warning;
};

// Loads it on the first call (thread-safe) and sets it to one thread of its own: the bits of its results depend on
// their number. A kernel set that the user chose by OPENBLAS_CORETYPE is left alone. If the host program has OpenBLAS
// loaded already, that copy is used as it is, but for its number of threads.
const OpenBlas& GetOpenBlas();

// The same as Gemm (gemm.h), by one call of OpenBLAS on one thread. Throws Error(kFailure) where it cannot be used.
void OpenBlasGemm(const GemmArguments<float>& g);
void OpenBlasGemm(const GemmArguments<double>& g);

}  // namespace crosstalk::kernels
