#include "tools/report/png.h"

#include <algorithm>
#include <string_view>

#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

constexpr size_t kMostStored = 65535;  // bytes of a block that is not compressed

std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xEDB88320U : 0);
    table[byte] = crc;
  }
  return table;
}

uint32_t Crc32(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = MakeCrcTable();
  uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

uint32_t Adler32(std::string_view bytes) {
  uint32_t a = 1, b = 0;
  for (const char byte : bytes) {
    a = (a + static_cast<unsigned char>(byte)) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

std::string BigEndian(uint64_t value, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) text += static_cast<char>(value >> shift & 0xFF);
  return text;
}

std::string Chunk(const std::string& kind, const std::string& data) {
  const std::string body = kind + data;
  return BigEndian(data.size(), 4) + body + BigEndian(Crc32(body), 4);
}

// zlib's form, in blocks that are stored as they are.
std::string Stored(std::string_view bytes) {
  std::string out = "\x78\x01";
  for (size_t at = 0; at < bytes.size() || at == 0; at += kMostStored) {
    const size_t size = std::min(kMostStored, bytes.size() - at);
    out += static_cast<char>(at + size >= bytes.size());
    for (const size_t word : {size, ~size}) {
      out += static_cast<char>(word & 0xFF);
      out += static_cast<char>(word >> 8 & 0xFF);
    }
    out += bytes.substr(at, size);
  }
  return out + BigEndian(Adler32(bytes), 4);
}

}  // namespace

std::string EncodePng(int64_t width, int64_t height, std::span<const uint8_t> pixels, const Palette& palette) {
  CROSSTALK_CHECK(width > 0 && height > 0 && static_cast<size_t>(width * height) == pixels.size(),
                  "PNG: ", pixels.size(), " pixels are not ", width, " by ", height);
  std::string rows;
  for (int64_t row = 0; row < height; ++row) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(pixels.data()) + row * width, static_cast<size_t>(width));
  }
  std::string colours, alphas;
  for (const PaletteColour& colour : palette) {
    for (const uint8_t part : {colour.red, colour.green, colour.blue}) colours += static_cast<char>(part);
    alphas += static_cast<char>(colour.alpha);
  }
  // 8 bits a pixel, by palette.
  const std::string header = BigEndian(static_cast<uint64_t>(width), 4) + BigEndian(static_cast<uint64_t>(height), 4) +
                             std::string("\x08\x03\x00\x00\x00", 5);
  return std::string("\x89PNG\r\n\x1a\n") + Chunk("IHDR", header) + Chunk("PLTE", colours) + Chunk("tRNS", alphas) +
         Chunk("IDAT", Stored(rows)) + Chunk("IEND", "");
}

}  // namespace crosstalk
