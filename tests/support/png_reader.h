// A reader of PNG files with a palette, for tests of what writes them: every checksum, the chunks, deflate's fixed code
// and filter 0. Written from the formats' definitions (ISO/IEC 15948, RFC 1950, RFC 1951) and sharing nothing with the
// writer.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace crosstalk {

struct ReadImage {
  uint32_t width = 0, height = 0;
  std::string palette, alphas;  // 3 bytes a colour; 1 byte a colour, or empty
  std::vector<uint8_t> pixels;
};

namespace png_reader {

inline void Check(bool good, const char* what) {
  if (!good) throw std::runtime_error(what);
}

inline uint32_t BigEndian(std::string_view bytes) {
  uint32_t value = 0;
  for (const char c : bytes.substr(0, 4)) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

inline uint32_t Crc(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xEDB88320u : 0u);
  }
  return crc ^ 0xFFFFFFFFu;
}

class Bits {
 public:
  explicit Bits(std::string_view bytes) : bytes_(bytes) {}
  uint32_t Take(int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; ++i) value |= One() << i;
    return value;
  }
  uint32_t One() {
    Check(at_ / 8 < bytes_.size(), "deflate: ends early");
    const uint32_t bit = static_cast<unsigned char>(bytes_[at_ / 8]) >> at_ % 8 & 1;
    ++at_;
    return bit;
  }
  uint32_t Code(int count) {  // highest bit first
    uint32_t value = 0;
    for (int i = 0; i < count; ++i) value = value << 1 | One();
    return value;
  }
  size_t bytes_used() const { return (at_ + 7) / 8; }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

inline std::string Inflate(std::string_view bytes, size_t* used) {
  constexpr int kLengths[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                              31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
  constexpr int kLengthBits[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
  constexpr int kDistances[] = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
                                193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
  Bits bits(bytes);
  Check(bits.Take(1) == 1 && bits.Take(2) == 1, "deflate: not one last block of the fixed code");
  std::string out;
  while (true) {
    uint32_t symbol = bits.Code(7);
    if (symbol <= 0x17) {
      symbol += 256;
    } else {
      symbol = symbol << 1 | bits.One();
      if (symbol >= 0x30 && symbol <= 0xBF) {
        symbol -= 0x30;
      } else if (symbol >= 0xC0 && symbol <= 0xC7) {
        symbol += 280 - 0xC0;
      } else {
        symbol = (symbol << 1 | bits.One()) - 0x190 + 144;
      }
    }
    if (symbol == 256) break;
    if (symbol < 256) {
      out += static_cast<char>(symbol);
      continue;
    }
    Check(symbol <= 285, "deflate: no such length");
    const size_t length = static_cast<size_t>(kLengths[symbol - 257]) + bits.Take(kLengthBits[symbol - 257]);
    const uint32_t code = bits.Code(5);
    Check(code < 30, "deflate: no such distance");
    const size_t distance =
        static_cast<size_t>(kDistances[code]) + bits.Take(code < 4 ? 0 : static_cast<int>(code / 2 - 1));
    Check(distance <= out.size(), "deflate: reaches before the beginning");
    for (size_t i = 0; i < length; ++i) out += out[out.size() - distance];
  }
  *used = bits.bytes_used();
  return out;
}

}  // namespace png_reader

// Throws std::runtime_error for what is no such file.
inline ReadImage ReadPng(std::string_view file) {
  using namespace png_reader;
  Check(file.substr(0, 8) == "\x89PNG\r\n\x1a\n", "PNG: no signature");
  std::map<std::string, std::string> chunks;
  for (size_t at = 8; at < file.size();) {
    const size_t length = BigEndian(file.substr(at));
    const std::string_view body = file.substr(at + 4, 4 + length);
    Check(body.size() == 4 + length && BigEndian(file.substr(at + 8 + length)) == Crc(body), "PNG: a chunk's checksum");
    chunks[std::string(body.substr(0, 4))] = std::string(body.substr(4));
    at += 12 + length;
  }
  Check(chunks.count("IEND") == 1 && chunks["IEND"].empty(), "PNG: no end");
  const std::string header = chunks["IHDR"];
  Check(header.size() == 13 && header.substr(8) == std::string("\x08\x03\x00\x00\x00", 5), "PNG: another form");
  ReadImage image = {
      BigEndian(header), BigEndian(std::string_view(header).substr(4)), chunks["PLTE"], chunks["tRNS"], {}};
  const std::string zlib = chunks["IDAT"];
  Check((zlib[0] & 0x0F) == 8 &&
            (static_cast<unsigned char>(zlib[0]) * 256 + static_cast<unsigned char>(zlib[1])) % 31 == 0,
        "zlib: header");
  size_t used = 0;
  const std::string rows = Inflate(std::string_view(zlib).substr(2), &used);
  uint32_t a = 1, b = 0;
  for (const char c : rows) {
    a = (a + static_cast<unsigned char>(c)) % 65521;
    b = (b + a) % 65521;
  }
  Check(zlib.size() == 2 + used + 4 && BigEndian(std::string_view(zlib).substr(2 + used)) == (b << 16 | a),
        "zlib: Adler-32");
  Check(rows.size() == static_cast<size_t>(image.height) * (image.width + 1), "PNG: rows");
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i % (image.width + 1) != 0) image.pixels.push_back(static_cast<uint8_t>(rows[i]));
    Check(i % (image.width + 1) != 0 || rows[i] == 0, "PNG: a filter");
  }
  return image;
}

}  // namespace crosstalk
