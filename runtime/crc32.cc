#include "crosstalk/runtime/crc32.h"

#include <array>
#include <cstddef>

namespace crosstalk {
namespace {

using CrcTable = std::array<uint32_t, 256>;

// Of a polynomial with its bits reversed: bit 0 is the coefficient of x³¹.
constexpr CrcTable MakeTable(uint32_t polynomial) {
  CrcTable table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ polynomial : crc >> 1;
    table[byte] = crc;
  }
  return table;
}

constexpr CrcTable kPng = MakeTable(0xEDB88320u), kCastagnoli = MakeTable(0x82F63B78u);

uint32_t CrcOf(const CrcTable& table, std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

}  // namespace

uint32_t Crc32Of(std::string_view bytes) { return CrcOf(kPng, bytes); }
uint32_t Crc32cOf(std::string_view bytes) { return CrcOf(kCastagnoli, bytes); }

}  // namespace crosstalk
