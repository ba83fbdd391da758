// Sums, maxima and scans over one dimension or all of an array. x[outer, reduced, inner] is contiguous; inner = 1 are
// reductions of rows, outer = 1 of columns. Sums are blocked (error grows as √, at worst as the number of blocks), in
// an order that the shape alone decides, never the number of threads or the width of a vector.
#pragma once

#include <cstdint>

namespace crosstalk::kernels {

// y[outer, inner] = Σ_r x[outer, r, inner]; reduced = 0 gives 0.
template <typename T>
void Sum(int64_t outer, int64_t reduced, int64_t inner, const T* x, T* y);

// y[outer, inner] = max_r x, index = the first r where it stands (may be null). reduced ≥ 1. A NaN wins: the first.
template <typename T>
void Max(int64_t outer, int64_t reduced, int64_t inner, const T* x, T* y, int64_t* index);

// dx[outer, reduced, inner] = dy at `index`, 0 elsewhere.
template <typename T>
void MaxGradient(int64_t outer, int64_t reduced, int64_t inner, const int64_t* index, const T* dy, T* dx);

// Over a whole contiguous array, accumulated in double.
template <typename T>
double SumOfSquares(int64_t count, const T* x);

// The lowest index whose element is NaN or infinite; -1 if there is none.
template <typename T>
int64_t FirstNonFinite(int64_t count, const T* x);

}  // namespace crosstalk::kernels
