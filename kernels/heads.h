// What positions and neighbours do to heads: rotary positions, and convolutions over queries, keys and heads.
#pragma once

#include <cstdint>

#pragma GCC visibility push(default)
namespace crosstalk {

// Rotary positions (Su et al. 2021): pairs of a vector's elements, turned by an angle that grows with the position.
namespace kernels {

// Which elements of a vector of d make pair i < d / 2.
enum class RotaryPairs {
  kHalves,       // i and i + d / 2 (GPT-NeoX, Llama as Hugging Face has it)
  kInterleaved,  // 2i and 2i + 1 (RoFormer, Llama as Meta has it)
};

// The angle by which a position p turns pair i < d / 2 is p · f_i, f_i = base^(-2i / d), where no context is scaled.
// With a factor (Llama 3's scaling for contexts beyond `original_context`) and wavelengths λ_i = 2π / f_i:
//   λ_i > original_context / low: f_i / factor      λ_i < original_context / high: f_i      else between them,
//   (1 - s) · f_i / factor + s · f_i, s = (original_context / λ_i - low) / (high - low).
// original_context = 0: all f_i / factor (linear scaling).
struct RotaryFrequencies {
  double base = 10'000;
  double factor = 1;
  int64_t original_context = 0;
  double low = 1, high = 4;

  bool operator==(const RotaryFrequencies&) const = default;
};

struct RotaryShape {
  int64_t b = 0, n = 0, heads = 0, d = 0;
  RotaryPairs pairs = RotaryPairs::kHalves;
};

// cos and sin[n, d / 2] of the angles p · f_i of the positions p = first … first + n - 1.
template <typename T>
void RotaryTable(int64_t n, int64_t d, int64_t first, const RotaryFrequencies& frequencies, T* cos, T* sin);

// y[b, n, heads, d] of x by position: (y_1, y_2) = (x_1·cos - x_2·sin, x_2·cos + x_1·sin) for each pair. direction -1
// turns back, which is the gradient.
template <typename T>
void Rotate(const RotaryShape& shape, const T* cos, const T* sin, int direction, const T* x, T* y);

}  // namespace kernels
}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk::kernels {

// The convolution of Multi-Token Attention (Golovneva et al. 2025): of each head's logits or weights over neighbouring
// queries and keys, with a filter a head.

struct HeadConvolutionShape {
  int64_t b = 0, h = 0, n = 0, m = 0;  // S[b, h, n, m]
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

// Sizes to which the planes of kernels/convolution-inl.h are padded.

inline constexpr int kFilterLanes = 16;           // partial sums of a tap's gradient, for every width of a vector
inline constexpr int64_t kConvolvedColumns = 32;  // two vectors at least
inline constexpr int64_t kConvolvedRows = 8;
inline constexpr int kReadBeside = 16;  // elements that are read after the last that counts

}  // namespace crosstalk::kernels
