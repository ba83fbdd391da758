#include "crosstalk/kernels/gemm/amx.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/runtime/random.h"
#include "gtest/gtest.h"

namespace crosstalk::kernels {
namespace amx_test {

// A[32, 2·pairs] and B[2·pairs, 32] of bfloat16, as floats and as the pairs that tiles read.
struct Operands {
  explicit Operands(int64_t pair_count, float scale = 1.0f) : pairs(pair_count), a(32 * 2 * pairs), b(a.size()) {
    const RandomKey key = {.seed = 7};
    std::vector<uint16_t> half(1);
    const auto fill = [&](std::vector<float>* to, uint64_t from) {
      for (size_t i = 0; i < to->size(); ++i) {
        const float x = scale * static_cast<float>(2 * Uniform(key, from + i) - 1);
        RoundToBFloat16(1, &x, half.data());
        WidenBFloat16(1, half.data(), &(*to)[i]);
      }
    };
    fill(&a, 0);
    fill(&b, a.size());
    const auto upper = [](float x) {
      uint32_t bits;
      std::memcpy(&bits, &x, sizeof bits);
      return bits >> 16;
    };
    for (int64_t r = 0; r < 32; ++r) {
      for (int64_t p = 0; p < pairs; ++p) a_pairs.push_back(upper(A(r, 2 * p)) | upper(A(r, 2 * p + 1)) << 16);
    }
    for (int64_t p = 0; p < pairs; ++p) {
      for (int64_t c = 0; c < 32; ++c) b_pairs.push_back(upper(B(2 * p, c)) | upper(B(2 * p + 1, c)) << 16);
    }
  }
  float A(int64_t r, int64_t k) const { return a[static_cast<size_t>(r * 2 * pairs + k)]; }
  float B(int64_t k, int64_t c) const { return b[static_cast<size_t>(k * 32 + c)]; }

  template <class Tiles>
  std::vector<float> Product() const {
    std::vector<float> sums(32 * 32, NAN);
    Tiles tiles;
    tiles.Clear();
    for (int64_t p = 0; p < pairs; p += kTileSize)
      tiles.AddStep(a_pairs.data() + p, pairs, b_pairs.data() + p * 32, 32);
    tiles.Store(sums.data());
    return sums;
  }

  int64_t pairs;
  std::vector<float> a, b;
  std::vector<uint32_t> a_pairs, b_pairs;
};

// 1 + 2^-24 is 1 where it is rounded at once; 2^-24 from each of two chains is kept where the chains meet first.
TEST(TilesTest, EvenAndOddTermsAreSummedApart) {
  const auto pair = [](uint32_t even, uint32_t odd) { return even | odd << 16; };
  constexpr uint32_t kOne = 0x3f80, kSmall = 0x3980;  // 2^-12
  std::vector<uint32_t> a(32 * 16), b(16 * 32);
  ModelTiles tiles;
  tiles.Clear();
  a[0] = pair(kOne, 0);
  b[0] = pair(kOne, 0);
  tiles.AddStep(a.data(), 16, b.data(), 32);  // the sum is 1
  a[0] = pair(kSmall, kSmall);
  b[0] = pair(kSmall, kSmall);
  tiles.AddStep(a.data(), 16, b.data(), 32);  // + (2^-24 + 2^-24)
  std::vector<float> sums(32 * 32);
  tiles.Store(sums.data());
  EXPECT_EQ(sums[0], 1.0f + 0x1p-23f);
}

TEST(TilesTest, WhatIsBelowTheNormalNumbersIsZero) {
  const Operands x(16, 0x1p-64f);  // products around 2^-128
  for (const float sum : x.Product<ModelTiles>()) ASSERT_TRUE(sum == 0.0f || std::fabs(sum) >= 0x1p-126f) << sum;
}

TEST(TilesTest, TheProcessorAgreesWithTheModel) {
  if (!HasTiles()) GTEST_SKIP() << "this machine has no AMX tiles of bfloat16";
  for (const float scale : {1.0f, 0x1p-64f, 0x1p60f}) {
    const Operands x(64, scale);
    const std::vector<float> model = x.Product<ModelTiles>(), hardware = x.Product<AmxTiles>();
    ASSERT_EQ(std::memcmp(model.data(), hardware.data(), model.size() * sizeof(float)), 0) << scale;
  }
}

// sums[r][c], of which `shape` is added to, and what is beyond.
template <class Tiles>
std::vector<float> Added(const Operands& x, const TileShape& shape, int64_t steps) {
  std::vector<float> sums(32 * 40);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = static_cast<float>(i);
  Tiles tiles;
  tiles.Reshape(shape);
  tiles.Load(sums.data(), 40);
  for (int64_t p = 0; p < steps * shape.depth; p += shape.depth) {
    tiles.AddStep(x.a_pairs.data() + p, x.pairs, x.b_pairs.data() + p * 32, 32);
  }
  tiles.Store(sums.data(), 40);
  return sums;
}

// Products of two bfloat16 are exact in float, and each of some hundred additions rounds a sum below 1300.
TEST(TilesTest, BlocksOfAnyRowsAndPairsAreAddedToWhatTheyHold) {
  const Operands x(48);
  for (const TileShape& shape : {TileShape{2, 1}, TileShape{6, 5}, TileShape{24, 12}, TileShape{32, 16}}) {
    const std::vector<float> sums = Added<ModelTiles>(x, shape, 3);
    for (int64_t r = 0; r < 32; ++r) {
      for (int64_t c = 0; c < 40; ++c) {
        double expected = static_cast<double>(r * 40 + c);
        for (int64_t k = 0; r < shape.rows && c < 32 && k < 6 * shape.depth; ++k) {
          expected += double{x.A(r, k)} * double{x.B(k, c)};
        }
        ASSERT_NEAR(sums[static_cast<size_t>(r * 40 + c)], expected, 1e-3) << r << ", " << c;
      }
    }
    if (!HasTiles()) continue;
    const std::vector<float> hardware = Added<AmxTiles>(x, shape, 3);
    ASSERT_EQ(std::memcmp(sums.data(), hardware.data(), sums.size() * sizeof(float)), 0) << shape.rows;
  }
}

}  // namespace amx_test
}  // namespace crosstalk::kernels
