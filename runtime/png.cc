#include "crosstalk/runtime/png.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/checksum.h"

namespace crosstalk {
namespace {

constexpr int64_t kLargest = 30'000;  // so that a row is within deflate's 32,768 bytes of memory

void AppendBigEndian(uint32_t value, std::string* out) {
  for (int shift = 24; shift >= 0; shift -= 8) *out += static_cast<char>(value >> shift & 0xFF);
}

// Bits from the lowest on, as deflate packs them (RFC 1951).
class BitWriter {
 public:
  void Put(uint32_t bits, int count) {
    held_ |= static_cast<uint64_t>(bits) << held_count_;
    for (held_count_ += count; held_count_ >= 8; held_count_ -= 8) {
      out_ += static_cast<char>(held_ & 0xFF);
      held_ >>= 8;
    }
  }
  // A Huffman code, whose highest bit comes first.
  void PutCode(uint32_t code, int count) {
    uint32_t reversed = 0;
    for (int i = 0; i < count; ++i) reversed |= (code >> i & 1) << (count - 1 - i);
    Put(reversed, count);
  }
  std::string Finish() {
    if (held_count_ > 0) Put(0, 8 - held_count_);
    return std::move(out_);
  }

 private:
  std::string out_;
  uint64_t held_ = 0;
  int held_count_ = 0;
};

// A literal byte, the end (256) or a length's symbol (257 …), by the fixed code.
void PutSymbol(uint32_t symbol, BitWriter* bits) {
  if (symbol < 144) return bits->PutCode(0x30 + symbol, 8);
  if (symbol < 256) return bits->PutCode(0x190 + symbol - 144, 9);
  if (symbol < 280) return bits->PutCode(symbol - 256, 7);
  bits->PutCode(0xC0 + symbol - 280, 8);
}

// Lengths and distances are cut into ranges that double in size every `per_size` of them: the number of the range of
// `value` (from 0), and its place there in `extra` bits.
struct Range {
  uint32_t number, place;
  int extra;
};
Range RangeOf(uint32_t value, uint32_t per_size) {
  if (value < 2 * per_size) return {value, 0, 0};
  int extra = 0;
  while (value >> (extra + 1) >= per_size) ++extra;
  return {per_size * static_cast<uint32_t>(extra) + (value >> extra), value & ((1u << extra) - 1), extra};
}

void PutMatch(uint32_t length, uint32_t distance, BitWriter* bits) {
  if (length == 258) {
    PutSymbol(285, bits);
  } else {
    const Range range = RangeOf(length - 3, 4);
    PutSymbol(257 + range.number, bits);
    bits->Put(range.place, range.extra);
  }
  const Range range = RangeOf(distance - 1, 2);
  bits->PutCode(range.number, 5);
  bits->Put(range.place, range.extra);
}

// One block of the fixed code whose matches are runs of a byte and repetitions of the row before.
std::string Deflate(std::string_view bytes, size_t row) {
  BitWriter bits;
  bits.Put(1, 1);  // the last block
  bits.Put(1, 2);  // of the fixed code
  for (size_t at = 0; at < bytes.size();) {
    size_t best = 0, best_distance = 0;
    for (const size_t distance : {size_t{1}, row}) {
      if (distance > at) continue;
      size_t length = 0;
      const size_t most = std::min<size_t>(258, bytes.size() - at);
      while (length < most && bytes[at + length] == bytes[at + length - distance]) ++length;
      if (length > best) best = length, best_distance = distance;
    }
    if (best < 3) {
      PutSymbol(static_cast<unsigned char>(bytes[at++]), &bits);
    } else {
      PutMatch(static_cast<uint32_t>(best), static_cast<uint32_t>(best_distance), &bits);
      at += best;
    }
  }
  PutSymbol(256, &bits);
  return bits.Finish();
}

// RFC 1950.
std::string Zlib(std::string_view bytes, size_t row) {
  uint32_t a = 1, b = 0;  // Adler-32
  for (const char c : bytes) {
    a = (a + static_cast<unsigned char>(c)) % 65521;
    b = (b + a) % 65521;
  }
  std::string out = "\x78\x01" + Deflate(bytes, row);
  AppendBigEndian(b << 16 | a, &out);
  return out;
}

void AppendChunk(std::string_view type, std::string_view data, std::string* out) {
  AppendBigEndian(static_cast<uint32_t>(data.size()), out);
  const std::string body = std::string(type) + std::string(data);
  *out += body;
  AppendBigEndian(Crc32Of(body), out);
}

}  // namespace

std::string EncodePng(int64_t width, int64_t height, std::span<const uint8_t> pixels,
                      std::span<const PaletteColour> palette) {
  CROSSTALK_CHECK(
      width >= 1 && width <= kLargest && height >= 1 && height <= kLargest &&
          static_cast<int64_t>(pixels.size()) == width * height && !palette.empty() && palette.size() <= 256,
      "PNG: ", pixels.size(), " pixels and ", palette.size(), " colours are no image of ", width, " × ", height);
  std::string header, colours, alphas, rows;
  AppendBigEndian(static_cast<uint32_t>(width), &header);
  AppendBigEndian(static_cast<uint32_t>(height), &header);
  header += {8, 3, 0, 0, 0};  // 8 bits a pixel, a palette, deflate, filters by row, not interlaced
  for (const PaletteColour& colour : palette) {
    for (const uint8_t part : {colour.red, colour.green, colour.blue}) colours += static_cast<char>(part);
    alphas += static_cast<char>(colour.alpha);
  }
  for (int64_t y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(pixels.data()) + y * width, static_cast<size_t>(width));
  }
  std::string out = "\x89PNG\r\n\x1a\n";
  AppendChunk("IHDR", header, &out);
  AppendChunk("PLTE", colours, &out);
  if (alphas.find_first_not_of('\xFF') != std::string::npos) AppendChunk("tRNS", alphas, &out);
  AppendChunk("IDAT", Zlib(rows, static_cast<size_t>(width) + 1), &out);
  AppendChunk("IEND", "", &out);
  return out;
}

}  // namespace crosstalk
