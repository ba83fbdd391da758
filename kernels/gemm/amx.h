// Matrix tiles of bfloat16, as AMX has them (Intel, since Sapphire Rapids): registers of 16 rows of 64 bytes, and one
// instruction that multiplies two of them. Pointers and asm only; what packs for them is in pairs-inl.h.
//
// A step adds the products of 16 pairs of terms. TDPBF16PS sums up the even terms and the odd ones apart, from zero,
// and then adds both:
//
//   even = Σ_p a[2p] · b[2p]    odd = Σ_p a[2p + 1] · b[2p + 1]    sum ← sum + (even + odd),   p = 0 … 15
//
// by fused multiply-adds, where results below 2^-126 become 0. That is another order than VDPBF16PS's, so that tiles
// give other bits than the other units.
#pragma once

#include <cstdint>

namespace crosstalk::kernels {

inline constexpr int kTileSize = 16;                  // rows of a tile; pairs or floats of a row
inline constexpr int64_t kTileBlock = 2 * kTileSize;  // rows and columns of C that two by two tiles hold

// Whether this CPU has tiles of bfloat16 and the kernel lets the process use them, which the first call asks for.
bool HasTiles();

// Sums of kTileBlock × kTileBlock, in the tile registers of a thread from construction to destruction: one of these at
// a time. Only where HasTiles().
class AmxTiles {
 public:
  AmxTiles();
  ~AmxTiles();  // gives the registers back, so that a switch of threads needs not save them
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

  void Clear();
  // sums += A[32, 16 pairs] · B[16 pairs, 32]. A's rows are `a_stride` pairs apart, B's `b_stride`.
  void AddStep(const uint32_t* a, int64_t a_stride, const uint32_t* b, int64_t b_stride);
  void Store(float* sums) const;  // [32, 32]
};

// The same in software, to the bit: what tests run, and what gives a machine without tiles the bits of one with them.
class ModelTiles {
 public:
  void Clear();
  void AddStep(const uint32_t* a, int64_t a_stride, const uint32_t* b, int64_t b_stride);
  void Store(float* sums) const;

 private:
  float sums_[kTileBlock][kTileBlock];
};

}  // namespace crosstalk::kernels
