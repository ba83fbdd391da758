#include "crosstalk/runtime/png.h"

#include <gtest/gtest.h>

#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/random.h"
#include "tests/support/png_reader.h"

namespace crosstalk {
namespace png_test {

std::vector<PaletteColour> Greys(int count) {
  std::vector<PaletteColour> colours;
  for (int i = 0; i < count; ++i) {
    const auto grey = static_cast<uint8_t>(i);
    colours.push_back({grey, grey, static_cast<uint8_t>(255 - i)});
  }
  return colours;
}

TEST(PngTest, PixelsAndColoursAreReadBack) {
  const RandomKey key{.seed = 1, .stream = 2};
  for (const auto& [width, height] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {1, 7}, {7, 1}, {31, 17}, {300, 3}, {29'999, 2}}) {
    for (const uint64_t colours : {2u, 256u}) {  // with many runs, with hardly any
      SCOPED_TRACE(::testing::Message() << width << " × " << height << ", " << colours);
      std::vector<uint8_t> pixels;
      for (int64_t i = 0; i < width * height; ++i) {
        pixels.push_back(static_cast<uint8_t>(UniformInt(key, static_cast<uint64_t>(i), colours)));
      }
      const ReadImage image = ReadPng(EncodePng(width, height, pixels, Greys(256)));
      EXPECT_TRUE(image.width == width && image.height == height && image.pixels == pixels);
    }
  }
  const std::vector<PaletteColour> colours = {{1, 2, 3, 255}, {4, 5, 6, 7}};
  const ReadImage image = ReadPng(EncodePng(1, 1, std::vector<uint8_t>{1}, colours));
  EXPECT_EQ(image.palette, std::string("\1\2\3\4\5\6"));
  EXPECT_EQ(image.alphas, std::string("\xFF\7"));
  EXPECT_EQ(ReadPng(EncodePng(1, 1, std::vector<uint8_t>{1}, Greys(2))).alphas, "");
}

TEST(PngTest, ADrawingOfFewValuesIsSmall) {
  std::vector<uint8_t> pixels;
  for (int64_t i = 0; i < 192 * 192; ++i) pixels.push_back(static_cast<uint8_t>(i / 192 / 24 * 8 + i % 192 / 24));
  EXPECT_LT(EncodePng(192, 192, pixels, Greys(64)).size(), 2000u);
}

TEST(PngTest, WhatIsNoImageIsRefused) {
  EXPECT_THROW(EncodePng(2, 2, std::vector<uint8_t>(3), Greys(2)), Error);
  EXPECT_THROW(EncodePng(0, 2, std::vector<uint8_t>(), Greys(2)), Error);
  EXPECT_THROW(EncodePng(1, 1, std::vector<uint8_t>(1), Greys(257)), Error);
}

}  // namespace png_test
}  // namespace crosstalk
