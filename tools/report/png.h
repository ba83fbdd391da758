// PNG images of one byte a pixel that names a colour and how opaque it is: all that a heat map takes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace crosstalk {

struct PaletteColour {
  uint8_t red, green, blue, alpha;
};
using Palette = std::array<PaletteColour, 256>;

// The file's bytes; not compressed. pixels[height, width].
std::string EncodePng(int64_t width, int64_t height, std::span<const uint8_t> pixels, const Palette& palette);

}  // namespace crosstalk
