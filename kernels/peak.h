// The physical limits that speeds are reported against, measured in this process: the rates of multiply-adds, in float
// and of bfloat16, and of reading memory.
#pragma once

namespace crosstalk::kernels {

// GFLOP/s (a multiply-add counts two) of float multiply-adds in registers, on the SIMD target in use: the best of a few
// runs of `milliseconds` in all, on `threads` threads at once (each its own loop), or as many as there are processors.
double MeasurePeakGflops(int threads, double milliseconds = 100);

// The same of products of bfloat16 that are summed up in float, on the unit in use (kernels/bfloat16.h). Pairs that are
// widened take two multiply-adds of floats, so that their peak is about that of floats: their halves are separated
// before the loop. Tiles are loaded from the first-level cache, which takes less time than multiplying them.
double MeasureBFloat16PeakGflops(int threads, double milliseconds = 100);

// 10^9 bytes a second of reading memory that is in no cache, in order, on `threads` threads at once, each its own part:
// the best of a few runs of `milliseconds` in all.
double MeasureReadGigabytes(int threads, double milliseconds = 200);

}  // namespace crosstalk::kernels
