#include "crosstalk/runtime/png.h"

#include <zlib.h>

#include <new>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/checksum.h"

namespace crosstalk {
namespace {

constexpr int64_t kLargest = 30'000;

std::string BigEndian(uint64_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
  return bytes;
}

std::string Chunk(const std::string& type, const std::string& data) {
  return BigEndian(data.size()) + type + data + BigEndian(Crc32Of(type + data));
}

std::string Packed(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string packed(size, '\0');
  const int status = compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                               reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), Z_BEST_COMPRESSION);
  if (status != Z_OK) throw std::bad_alloc();  // there is no other reason
  packed.resize(size);
  return packed;
}

}  // namespace

std::string EncodePng(int64_t width, int64_t height, std::span<const uint8_t> pixels,
                      std::span<const PaletteColour> palette) {
  CROSSTALK_CHECK(
      width >= 1 && width <= kLargest && height >= 1 && height <= kLargest &&
          static_cast<int64_t>(pixels.size()) == width * height && !palette.empty() && palette.size() <= 256,
      "PNG: ", pixels.size(), " pixels and ", palette.size(), " colours are no image of ", width, " × ", height);
  std::string header = BigEndian(static_cast<uint64_t>(width)) + BigEndian(static_cast<uint64_t>(height));
  header += {8, 3, 0, 0, 0};  // 8 bits a pixel, a palette, deflate, filters by row, not interlaced
  std::string colours, alphas, rows;
  for (const PaletteColour& colour : palette) {
    for (const uint8_t part : {colour.red, colour.green, colour.blue}) colours += static_cast<char>(part);
    alphas += static_cast<char>(colour.alpha);
  }
  for (int64_t y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(pixels.data()) + y * width, static_cast<size_t>(width));
  }
  const bool opaque = alphas.find_first_not_of('\xFF') == std::string::npos;
  return "\x89PNG\r\n\x1a\n" + Chunk("IHDR", header) + Chunk("PLTE", colours) + (opaque ? "" : Chunk("tRNS", alphas)) +
         Chunk("IDAT", Packed(rows)) + Chunk("IEND", "");
}

}  // namespace crosstalk
