#include "crosstalk/kernels/lapack.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "crosstalk/kernels/gemm/openblas.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"

namespace crosstalk::kernels {
namespace {

constexpr int64_t kMostRows = 1 << 20;  // int in LAPACK's interface, with room for its work space

int Checked(std::span<const double> a, int64_t rows, int64_t columns) {
  CROSSTALK_CHECK(rows >= 0 && columns >= 0 && rows <= kMostRows && columns <= kMostRows &&
                      static_cast<int64_t>(a.size()) == rows * columns,
                  "LAPACK: ", a.size(), " numbers are no matrix of ", rows, " × ", columns);
  return static_cast<int>(rows);
}

// Its algorithms need not end on what is not a number.
bool AllFinite(std::span<const double> a) {
  return std::all_of(a.begin(), a.end(), [](double x) { return std::isfinite(x); });
}

}  // namespace

std::string LapackUnavailable() {
  const OpenBlas& blas = GetOpenBlas();
  if (!blas.unavailable.empty()) return blas.unavailable;
  const bool all = blas.dgetrf != nullptr && blas.dgeev != nullptr && blas.dgesvd != nullptr;
  return all ? "" : "this OpenBLAS was built without LAPACK";
}

std::optional<Determinant> DeterminantOf(std::span<const double> a, int64_t n) {
  const int size = Checked(a, n, n), lead = std::max(1, size);
  if (!LapackUnavailable().empty() || !AllFinite(a)) return std::nullopt;
  const OpenBlasCall blas_call;
  std::vector<double> lu(a.begin(), a.end());  // the transpose, whose determinant is the same
  std::vector<int> pivots(static_cast<size_t>(n));
  int info = 0;
  GetOpenBlas().dgetrf(&size, &size, lu.data(), &lead, pivots.data(), &info);
  if (info < 0) return std::nullopt;  // above 0: a pivot is exactly 0, and so is the determinant
  // The product as mantissa · 2^exponent, which neither overflows nor underflows on its way.
  double mantissa = 1;
  int64_t exponent = 0;
  for (int64_t i = 0; i < n; ++i) {
    int own = 0;
    mantissa = std::frexp(mantissa * std::abs(lu[static_cast<size_t>(i * n + i)]), &own);
    exponent += own;
  }
  if (mantissa == 0) return Determinant{0, -std::numeric_limits<double>::infinity()};
  constexpr double kLog2 = 0.693147180559945309417;
  return Determinant{std::ldexp(mantissa, static_cast<int>(std::clamp<int64_t>(exponent, -5000, 5000))),
                     Log(mantissa) + static_cast<double>(exponent) * kLog2};
}

std::optional<std::vector<double>> EigenvalueSizes(std::span<const double> a, int64_t n) {
  const int size = Checked(a, n, n), lead = std::max(1, size), one = 1;
  if (!LapackUnavailable().empty() || !AllFinite(a)) return std::nullopt;
  const OpenBlasCall blas_call;
  std::vector<double> transpose(a.begin(), a.end());  // which has the same eigenvalues
  std::vector<double> real(static_cast<size_t>(n)), imaginary(static_cast<size_t>(n));
  const auto call = [&](double* work, int work_size) {
    int info = 0;
    GetOpenBlas().dgeev("N", "N", &size, transpose.data(), &lead, real.data(), imaginary.data(), nullptr, &one, nullptr,
                        &one, work, &work_size, &info, 1, 1);
    return info == 0;
  };
  double best = 0;
  if (!call(&best, -1)) return std::nullopt;
  std::vector<double> work(static_cast<size_t>(std::max(best, 3.0 * size + 1)));
  if (!call(work.data(), static_cast<int>(work.size()))) return std::nullopt;
  std::vector<double> sizes;
  for (size_t i = 0; i < real.size(); ++i) sizes.push_back(std::sqrt(real[i] * real[i] + imaginary[i] * imaginary[i]));
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

std::optional<std::vector<double>> SingularValues(std::span<const double> a, int64_t rows, int64_t columns) {
  // Row-major a[rows, columns] is aᵀ in column order, which has the same singular values.
  Checked(a, rows, columns);
  const int m = static_cast<int>(columns), n = static_cast<int>(rows), lead = std::max(1, m), one = 1;
  if (!LapackUnavailable().empty() || !AllFinite(a)) return std::nullopt;
  const OpenBlasCall blas_call;
  std::vector<double> transpose(a.begin(), a.end());
  std::vector<double> values(static_cast<size_t>(std::min(m, n)));
  const auto call = [&](double* work, int work_size) {
    int info = 0;
    GetOpenBlas().dgesvd("N", "N", &m, &n, transpose.data(), &lead, values.data(), nullptr, &one, nullptr, &one, work,
                         &work_size, &info, 1, 1);
    return info == 0;
  };
  double best = 0;
  if (!call(&best, -1)) return std::nullopt;
  std::vector<double> work(static_cast<size_t>(std::max(best, 5.0 * std::max(m, n) + 1)));
  if (!call(work.data(), static_cast<int>(work.size()))) return std::nullopt;
  return values;
}

}  // namespace crosstalk::kernels
