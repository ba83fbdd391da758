// The convolution of Multi-Token Attention (Golovneva et al. 2025): of each head's logits or weights over neighbouring
// queries and keys, with a filter a head.
#pragma once

#include <cstdint>

namespace crosstalk::kernels {

struct HeadConvolutionShape {
  int64_t b = 0, h = 0, n = 0, m = 0;  // of S[b, h, n, m]
  int64_t c_q = 0, c_k = 0;            // queries and keys that a filter reads
  int64_t left = 0;                    // keys of them that lie before its own: 0 … c_k - 1
  // Query i sees the keys j ≤ i + m - n: x is read as 0 beyond, and y is 0 there. Needs n ≤ m.
  bool causal = false;
};

// y[b, h, n, m] = Σ_{a<c_q, k<c_k} filter[a, k, h] · x[b, h, n - (c_q - 1) + a, m - left + k], 0 outside.
template <typename T>
void HeadConvolution(const HeadConvolutionShape& shape, const T* x, const T* filter, T* y);

// dx (may be null) and dfilter (may be null) of dy. The sums of dfilter have one order for any number of threads.
template <typename T>
void HeadConvolutionGradient(const HeadConvolutionShape& shape, const T* x, const T* filter, const T* dy, T* dx,
                             T* dfilter);

}  // namespace crosstalk::kernels
