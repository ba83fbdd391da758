// The physical limit that every speed is reported against: the rate of fused multiply-adds, measured in this process.
#pragma once

namespace crosstalk::kernels {

// GFLOP/s (a multiply-add counts two) of float multiply-adds in registers, on the SIMD target in use: the best of a few
// runs of `milliseconds` in all, on `threads` threads at once (each its own loop), or as many as there are processors.
double MeasurePeakGflops(int threads, double milliseconds = 100);

}  // namespace crosstalk::kernels
