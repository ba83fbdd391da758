// Matrix tiles of bfloat16, as AMX has them (Intel, since Sapphire Rapids): registers of 16 rows of 64 bytes, and one
// instruction that multiplies two of them. Pointers and asm only; pairs.cc packs for them, and the
// attention in matrix_tiles-inl.h.
//
// A step adds the products of up to 16 pairs of terms. TDPBF16PS sums up the even terms and the odd ones apart, from
// zero, and then adds both:
//
//   even = Σ_p a[2p] · b[2p]    odd = Σ_p a[2p + 1] · b[2p + 1]    sum ← sum + (even + odd),   p = 0 … depth - 1
//
// by fused multiply-adds, where results below 2^-126 become 0. That is another order than VDPBF16PS's, so that tiles
// give other bits than the other units.
#pragma once

#include <cstdint>
#include <optional>

#include "crosstalk/runtime/math.h"

#if defined(__x86_64__) && defined(__linux__)
#define CROSSTALK_HAS_TILE_CODE 1
#endif

namespace crosstalk::kernels {

inline constexpr int kTileSize = 16;                  // rows of a tile; pairs or floats of a row
inline constexpr int64_t kTileBlock = 2 * kTileSize;  // rows and columns of C that two by two tiles hold

// A block of sums, `rows` × 32, to which a step adds the products of `depth` pairs. Rows are an even number, at most
// 32; pairs at most 16. What lies beyond is neither read nor written.
struct TileShape {
  int64_t rows = kTileBlock, depth = kTileSize;
  bool operator==(const TileShape&) const = default;
};

// The equal parts into which tiles cut `size` rows, or terms of a sum: of an even number each, at most 32, and as few
// as can be. 0: there are none, or twice as many as the size would need.
inline int64_t EqualParts(int64_t size) {
  const int64_t least = CeilDivide(size, kTileBlock);
  for (int64_t parts = least; parts < 2 * least; ++parts) {
    if (size % (2 * parts) == 0) return parts;
  }
  return 0;
}
inline int64_t PartOfRows(int64_t rows) { return rows / EqualParts(rows); }
inline int64_t PartOfPairs(int64_t pairs) { return pairs / EqualParts(2 * pairs); }

// A block in memory: what tests run, and what gives a machine without tiles the bits of one with them.
class ModelTiles {
 public:
  void Reshape(const TileShape& shape) { shape_ = shape; }  // the sums are lost
  void Clear();
  void Load(const float* sums, int64_t stride);  // [rows, stride]; numbers below 2^-126 count as 0
  // sums += A[rows, depth] · B[depth, 32]. A's rows are `a_stride` pairs apart, B's `b_stride`.
  void AddStep(const uint32_t* a, int64_t a_stride, const uint32_t* b, int64_t b_stride);
  void Store(float* sums, int64_t stride = kTileBlock) const;  // [rows, stride]
  const TileShape& shape() const { return shape_; }

 private:
  TileShape shape_;
  float sums_[kTileBlock][kTileBlock];
};

#ifdef CROSSTALK_HAS_TILE_CODE

// Whether this CPU has tiles of bfloat16, and AVX512_BF16, and the kernel lets the process use them, which the first
// call asks for.
bool HasTiles();

// The same in the tile registers of a thread, to the bit. They are its own from construction to destruction: one of
// these at a time. Only where HasTiles().
class AmxTiles {
 public:
  AmxTiles();
  ~AmxTiles();  // gives the registers back, so that a switch of threads needs not save them
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

  void Reshape(const TileShape& shape);  // takes about 40 ns, if it is another
  void Clear();
  void Load(const float* sums, int64_t stride);
  void AddStep(const uint32_t* a, int64_t a_stride, const uint32_t* b, int64_t b_stride);
  void Store(float* sums, int64_t stride = kTileBlock) const;
  const TileShape& shape() const { return shape_; }

 private:
  TileShape shape_;
};

#else

// The compiler's processors have none: the model is all.
inline bool HasTiles() { return false; }
using AmxTiles = ModelTiles;

#endif

// Either of them, chosen at run time.
class MatrixTiles {
 public:
  explicit MatrixTiles(bool hardware) {
    if (hardware) hardware_.emplace();
  }
  // use(block) with a block of this shape.
  template <class Use>
  void With(const TileShape& shape, const Use& use) {
    const auto reshaped = [&](auto& block) {
      block.Reshape(shape);
      use(block);
    };
    if (hardware_) {
      reshaped(*hardware_);
    } else {
      reshaped(model_);
    }
  }

 private:
  std::optional<AmxTiles> hardware_;
  ModelTiles model_;
};

}  // namespace crosstalk::kernels
