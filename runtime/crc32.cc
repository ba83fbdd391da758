#include "crosstalk/runtime/crc32.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

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

constexpr CrcTable kPng = MakeTable(0xEDB88320u);

// tables[k][byte]: what a byte does to the checksum with k bytes of zeros after it, so that eight bytes are looked up
// side by side.
constexpr std::array<CrcTable, 8> MakeTables(uint32_t polynomial) {
  std::array<CrcTable, 8> tables{MakeTable(polynomial)};
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = before >> 8 ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr std::array<CrcTable, 8> kCastagnoli = MakeTables(0x82F63B78u);
static_assert(std::endian::native == std::endian::little, "eight bytes are read as one number");

uint32_t AddByte(const CrcTable& table, uint32_t crc, char byte) {
  return crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
}

}  // namespace

uint32_t Crc32Of(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) crc = AddByte(kPng, crc, c);
  return ~crc;
}

void Crc32c::Add(std::string_view bytes) {
  uint32_t crc = state_;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t eight;
    std::memcpy(&eight, bytes.data(), 8);
    eight ^= crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kCastagnoli[7 - i][eight >> 8 * i & 0xFF];
  }
  for (const char c : bytes) crc = AddByte(kCastagnoli[0], crc, c);
  state_ = crc;
}

uint32_t Crc32cOf(std::string_view bytes) {
  Crc32c crc;
  crc.Add(bytes);
  return crc.value();
}

uint32_t MaskedCrc32c(uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8u; }

}  // namespace crosstalk
