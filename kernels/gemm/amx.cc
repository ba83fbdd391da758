#include "crosstalk/kernels/gemm/amx.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "crosstalk/kernels/simd.h"
#include "crosstalk/runtime/check.h"

#ifdef CROSSTALK_HAS_TILE_CODE
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace crosstalk::kernels {

#ifdef CROSSTALK_HAS_TILE_CODE

namespace {

// State that the operating system must save and restore for tiles: their configuration and their data.
constexpr uint64_t kTileState = (uint64_t{1} << 17) | (uint64_t{1} << 18);
constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
constexpr int kTileData = 18;               // XFEATURE_XTILEDATA

bool AskForTiles() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & bit_OSXSAVE) == 0) return false;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kBFloat16Tiles = 1u << 22, kTiles = 1u << 24, kDotProducts = 1u << 5;
  if ((edx & kBFloat16Tiles) == 0 || (edx & kTiles) == 0) return false;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) == 0 || (eax & kDotProducts) == 0) return false;
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if (((uint64_t{high} << 32 | low) & kTileState) != kTileState) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// Palette 1: eight tiles. Tiles 0 to 3 hold the sums, two by two, 4 and 5 A's rows, 6 and 7 B's columns.
struct alignas(64) TileConfiguration {
  explicit TileConfiguration(const TileShape& shape) {
    std::fill_n(rows, 6, static_cast<uint8_t>(shape.rows / 2));
    std::fill_n(rows + 6, 2, static_cast<uint8_t>(shape.depth));
    std::fill_n(row_bytes + 4, 2, static_cast<uint16_t>(4 * shape.depth));
  }
  uint8_t palette = 1, start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfiguration) == 64);

thread_local bool in_use = false;

void Configure(const TileShape& shape) {
  const TileConfiguration configuration(shape);
  asm volatile("ldtilecfg %0" : : "m"(configuration));
}

}  // namespace

bool HasTiles() {
  static const bool has = AskForTiles();
  return has;
}

// The compiler never uses a tile itself, so that what they hold stays from one statement to the next.
AmxTiles::AmxTiles() {
  CROSSTALK_DCHECK(!in_use);
  in_use = true;
  Configure(shape_);
}
AmxTiles::~AmxTiles() {
  asm volatile("tilerelease");
  in_use = false;
}

void AmxTiles::Reshape(const TileShape& shape) {
  if (shape == shape_) return;
  shape_ = shape;
  Configure(shape);
}

void AmxTiles::Clear() { asm volatile("tilezero %tmm0\n\ttilezero %tmm1\n\ttilezero %tmm2\n\ttilezero %tmm3"); }

void AmxTiles::AddStep(const uint32_t* a, int64_t a_stride, const uint32_t* b, int64_t b_stride) {
  const int64_t a_bytes = 4 * a_stride, b_bytes = 4 * b_stride;
  asm volatile(
      "tileloadd (%[b0], %[b_bytes], 1), %%tmm6\n\t"
      "tileloadd (%[a0], %[a_bytes], 1), %%tmm4\n\t"
      "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
      "tileloadd (%[b1], %[b_bytes], 1), %%tmm7\n\t"
      "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
      "tileloadd (%[a1], %[a_bytes], 1), %%tmm5\n\t"
      "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
      "tdpbf16ps %%tmm7, %%tmm5, %%tmm3"
      :
      : [a0] "r"(a), [a1] "r"(a + shape_.rows / 2 * a_stride), [a_bytes] "r"(a_bytes), [b0] "r"(b),
        [b1] "r"(b + kTileSize), [b_bytes] "r"(b_bytes)
      : "memory");
}

void AmxTiles::Load(const float* sums, int64_t stride) {
  const float* const lower = sums + shape_.rows / 2 * stride;
  asm volatile(
      "tileloadd (%[s0], %[bytes], 1), %%tmm0\n\t"
      "tileloadd (%[s1], %[bytes], 1), %%tmm1\n\t"
      "tileloadd (%[s2], %[bytes], 1), %%tmm2\n\t"
      "tileloadd (%[s3], %[bytes], 1), %%tmm3"
      :
      :
      [s0] "r"(sums), [s1] "r"(sums + kTileSize), [s2] "r"(lower), [s3] "r"(lower + kTileSize), [bytes] "r"(4 * stride)
      : "memory");
}

void AmxTiles::Store(float* sums, int64_t stride) const {
  float* const lower = sums + shape_.rows / 2 * stride;
  asm volatile(
      "tilestored %%tmm0, (%[s0], %[bytes], 1)\n\t"
      "tilestored %%tmm1, (%[s1], %[bytes], 1)\n\t"
      "tilestored %%tmm2, (%[s2], %[bytes], 1)\n\t"
      "tilestored %%tmm3, (%[s3], %[bytes], 1)"
      :
      :
      [s0] "r"(sums), [s1] "r"(sums + kTileSize), [s2] "r"(lower), [s3] "r"(lower + kTileSize), [bytes] "r"(4 * stride)
      : "memory");
}

#endif

namespace {

float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

float Flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

}  // namespace

void ModelTiles::Clear() { std::memset(sums_, 0, sizeof sums_); }

void ModelTiles::AddStep(const uint32_t* a, int64_t a_stride, const uint32_t* b, int64_t b_stride) {
  const FlushSubnormals flush;
  float first[kTileSize][kTileBlock], second[kTileSize][kTileBlock];
  for (int64_t p = 0; p < shape_.depth; ++p) {
    for (int64_t c = 0; c < kTileBlock; ++c) {
      first[p][c] = FloatOf(b[p * b_stride + c] << 16);
      second[p][c] = FloatOf(b[p * b_stride + c] & 0xffff0000u);
    }
  }
  for (int64_t r = 0; r < shape_.rows; ++r) {
    float even[kTileBlock] = {}, odd[kTileBlock] = {};
    for (int64_t p = 0; p < shape_.depth; ++p) {
      const float x = FloatOf(a[r * a_stride + p] << 16), y = FloatOf(a[r * a_stride + p] & 0xffff0000u);
      for (int64_t c = 0; c < kTileBlock; ++c) {
        even[c] = std::fma(x, first[p][c], even[c]);
        odd[c] = std::fma(y, second[p][c], odd[c]);
      }
    }
    for (int64_t c = 0; c < kTileBlock; ++c) sums_[r][c] = Flushed(sums_[r][c] + Flushed(even[c] + odd[c]));
  }
}

void ModelTiles::Load(const float* sums, int64_t stride) {
  for (int64_t r = 0; r < shape_.rows; ++r) {
    for (int64_t c = 0; c < kTileBlock; ++c) sums_[r][c] = Flushed(sums[r * stride + c]);
  }
}

void ModelTiles::Store(float* sums, int64_t stride) const {
  for (int64_t r = 0; r < shape_.rows; ++r) std::memcpy(sums + r * stride, sums_[r], sizeof sums_[r]);
}

}  // namespace crosstalk::kernels
