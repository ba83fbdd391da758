// Three factorisations of a real matrix, by the LAPACK that OpenBLAS holds: for looking at small matrices (head
// projections), never for a number that a model computes with. Matrices are dense and row-major, double.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace crosstalk::kernels {

// Why there is no LAPACK here, or "". Everything below gives nothing then.
std::string LapackUnavailable();

struct Determinant {
  double absolute = 0;      // |det a|; 0 or infinity where a double cannot hold it
  double log_absolute = 0;  // log |det a|; -infinity where det a = 0
};
// |det a| of a[n, n]: the product of the pivots of a = P·L·U. 2/3·n³ operations.
std::optional<Determinant> DeterminantOf(std::span<const double> a, int64_t n);

// |λ| of the n complex eigenvalues of a[n, n], ascending. About 10·n³ operations.
std::optional<std::vector<double>> EigenvalueSizes(std::span<const double> a, int64_t n);

// The min(rows, columns) singular values of a[rows, columns], descending. About 8/3·n³ operations.
std::optional<std::vector<double>> SingularValues(std::span<const double> a, int64_t rows, int64_t columns);

}  // namespace crosstalk::kernels
