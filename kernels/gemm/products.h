// The products that blocked.cc and rounded.cc choose among, by what multiplies their operands: one source file each, so
// that they compile beside each other. Run on the SIMD target in use, which is settled. Buffers: the elements of each
// PackBuffer that a product of so many threads holds at once.
#pragma once

#include <cstdint>
#include <vector>

#include "crosstalk/kernels/gemm/gemm.h"

namespace crosstalk::kernels {

void ProductOfElements(const GemmArguments<float>& g);
void ProductOfElements(const GemmArguments<double>& g);
std::vector<int64_t> BuffersOfElements(const GemmArguments<float>& g, int64_t threads);
std::vector<int64_t> BuffersOfElements(const GemmArguments<double>& g, int64_t threads);

// Of pairs rounded to bfloat16: widened to float, in dot products where the target has them, in matrix tiles.
void ProductOfWidened(const GemmArguments<float>& g);
void ProductOfDotProducts(const GemmArguments<float>& g);
void ProductOfTiles(const GemmArguments<float>& g);
std::vector<int64_t> BuffersOfWidened(const GemmArguments<float>& g, int64_t threads);
std::vector<int64_t> BuffersOfDotProducts(const GemmArguments<float>& g, int64_t threads);
std::vector<int64_t> BuffersOfTiles(const GemmArguments<float>& g, int64_t threads);

}  // namespace crosstalk::kernels
