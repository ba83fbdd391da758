// OpenBLAS, opened at run time where somebody asks for it: the peer of `crosstalk bench`, an oracle of the tests, and
// the LAPACK of kernels/lapack.h.
// It is loaded with the best kernel set for this CPU. Left to itself, it picks one by a table of CPU models, and a CPU
// newer than the table gets SSE3 kernels: five times slower. It reads its choice from OPENBLAS_CORETYPE only while it
// is being loaded, so it is opened here instead of linked.
#pragma once

#include <cstddef>
#include <string>

#include "crosstalk/kernels/gemm/gemm.h"

namespace crosstalk::kernels {

struct OpenBlas {
  // cblas_sgemm and cblas_dgemm; the first three arguments are CBLAS's numbers.
  void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a, int lda,
                const float* b, int ldb, float beta, float* c, int ldc) = nullptr;
  void (*dgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha, const double* a,
                int lda, const double* b, int ldb, double beta, double* c, int ldc) = nullptr;
  // LAPACK's, on matrices in column order by Fortran's calling convention: every argument by address, and after them
  // the lengths of the strings. Null where the library was built without LAPACK.
  void (*dgetrf)(const int* rows, const int* columns, double* a, const int* lda, int* pivots, int* info) = nullptr;
  void (*dgeev)(const char* left, const char* right, const int* n, double* a, const int* lda, double* real,
                double* imaginary, double* left_vectors, const int* ld_left, double* right_vectors, const int* ld_right,
                double* work, const int* work_size, int* info, size_t left_length, size_t right_length) = nullptr;
  void (*dgesvd)(const char* left, const char* right, const int* rows, const int* columns, double* a, const int* lda,
                 double* singular_values, double* left_vectors, const int* ld_left, double* right_vectors,
                 const int* ld_right, double* work, const int* work_size, int* info, size_t left_length,
                 size_t right_length) = nullptr;
  // Why it cannot be used, or "". If it cannot, the functions are null.
  std::string unavailable;
  std::string core;  // the kernel set in use: "SkylakeX"; "none" where it cannot be used
  int buffers = 0;   // calls at a time; OpenBlasCall
  // "", or why it cannot be used or is not the best for this CPU: for the command to show, once.
  std::string warning;
};

// Loads it on the first call (thread-safe) and sets it to one thread of its own: the bits of its results depend on
// their number. A kernel set that the user chose by OPENBLAS_CORETYPE is left alone. If the host program has OpenBLAS
// loaded already, that copy is used as it is, except its number of threads.
const OpenBlas& GetOpenBlas();

// While one lives, the thread may call a function of OpenBLAS. A call needs a buffer of 128 MiB of addresses, and where
// the system refuses it, OpenBLAS asks for ever: as many as there are threads are made when it is loaded, or as many as
// have room; without room for one it is unavailable. Where all are in use, this waits for one.
class OpenBlasCall {
 public:
  OpenBlasCall();
  ~OpenBlasCall();
  OpenBlasCall(const OpenBlasCall&) = delete;
};

// The same as Gemm (gemm.h), by one call of OpenBLAS on one thread. Throws Error(kFailure) where it cannot be used.
void OpenBlasGemm(const GemmArguments<float>& g);
void OpenBlasGemm(const GemmArguments<double>& g);

}  // namespace crosstalk::kernels
