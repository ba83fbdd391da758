// A reader of PNG files with a palette, for tests of what writes them: every checksum, the chunks and filter 0, from
// the format's definition (ISO/IEC 15948), and unpacked by zlib.
#pragma once

#include <zlib.h>

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

// Throws std::runtime_error for what is no such file.
inline ReadImage ReadPng(std::string_view file) {
  const auto check = [](bool good, const char* what) {
    if (!good) throw std::runtime_error(what);
  };
  const auto big_endian = [](std::string_view bytes) {
    uint32_t value = 0;
    for (const char c : bytes.substr(0, 4)) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  };
  const auto data = [](std::string_view bytes) { return reinterpret_cast<const Bytef*>(bytes.data()); };
  check(file.substr(0, 8) == "\x89PNG\r\n\x1a\n", "PNG: no signature");
  std::map<std::string, std::string> chunks;
  for (size_t at = 8; at < file.size();) {
    const size_t length = big_endian(file.substr(at));
    const std::string_view body = file.substr(at + 4, 4 + length);
    check(body.size() == 4 + length && big_endian(file.substr(at + 8 + length)) == crc32_z(0, data(body), body.size()),
          "PNG: a chunk's checksum");
    chunks[std::string(body.substr(0, 4))] = std::string(body.substr(4));
    at += 12 + length;
  }
  check(chunks.count("IEND") == 1 && chunks["IEND"].empty(), "PNG: no end");
  const std::string_view header = chunks["IHDR"];
  check(header.size() == 13 && header.substr(8) == std::string_view("\x08\x03\x00\x00\x00", 5), "PNG: another form");
  ReadImage image = {big_endian(header), big_endian(header.substr(4)), chunks["PLTE"], chunks["tRNS"], {}};
  std::string rows(static_cast<size_t>(image.height) * (image.width + 1), '\0');
  uLongf size = rows.size();
  const int status =
      uncompress(reinterpret_cast<Bytef*>(rows.data()), &size, data(chunks["IDAT"]), chunks["IDAT"].size());
  check(status == Z_OK && size == rows.size(), "PNG: rows");
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i % (image.width + 1) != 0) image.pixels.push_back(static_cast<uint8_t>(rows[i]));
    check(i % (image.width + 1) != 0 || rows[i] == 0, "PNG: a filter");
  }
  return image;
}

}  // namespace crosstalk
