// The products that gemm.cc chooses among, by what multiplies their operands: one source file each, so
// that they compile beside each other. Run on the SIMD target in use, which is settled.
#pragma once

#include "crosstalk/kernels/gemm/blocked.h"
#include "crosstalk/kernels/gemm/gemm.h"

namespace crosstalk::kernels {

void ProductOfElements(const GemmArguments<float>& g);
void ProductOfElements(const GemmArguments<double>& g);
GemmWorkspace WorkspaceOfElements(const GemmArguments<float>& g, int threads);
GemmWorkspace WorkspaceOfElements(const GemmArguments<double>& g, int threads);

// Of pairs rounded to bfloat16: widened to float, in dot products where the target has them, in matrix tiles.
void ProductOfWidened(const GemmArguments<float>& g);
void ProductOfDotProducts(const GemmArguments<float>& g);
void ProductOfTiles(const GemmArguments<float>& g);
GemmWorkspace WorkspaceOfWidened(const GemmArguments<float>& g, int threads);
GemmWorkspace WorkspaceOfDotProducts(const GemmArguments<float>& g, int threads);
GemmWorkspace WorkspaceOfTiles(const GemmArguments<float>& g, int threads);

}  // namespace crosstalk::kernels
