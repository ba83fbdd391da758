// A writer of PNG files (ISO/IEC 15948) for drawings with few colours, packed by zlib.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace crosstalk {

struct PaletteColour {
  uint8_t red, green, blue;
  uint8_t alpha = 255;  // 0: nothing is seen of it
};

// The file's bytes. pixels[height, width] are colours' numbers; there are 1 to 256 of these, and a side is 1 to 30,000
// pixels long.
std::string EncodePng(int64_t width, int64_t height, std::span<const uint8_t> pixels,
                      std::span<const PaletteColour> palette);

}  // namespace crosstalk
