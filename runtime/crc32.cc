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

using CrcTables = std::array<CrcTable, 8>;
constexpr CrcTables kPng = MakeTables(0xEDB88320u);
constexpr CrcTables kCastagnoli = MakeTables(0x82F63B78u);
static_assert(std::endian::native == std::endian::little, "eight bytes are read as one number");

uint32_t AddBytes(const CrcTables& tables, uint32_t crc, std::string_view bytes) {
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t eight;
    std::memcpy(&eight, bytes.data(), 8);
    eight ^= crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= tables[7 - i][eight >> 8 * i & 0xFF];
  }
  for (const char c : bytes) crc = crc >> 8 ^ tables[0][(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return crc;
}

}  // namespace

void Crc32::Add(std::string_view bytes) { state_ = AddBytes(kPng, state_, bytes); }
void Crc32c::Add(std::string_view bytes) { state_ = AddBytes(kCastagnoli, state_, bytes); }

uint32_t Crc32Of(std::string_view bytes) {
  Crc32 crc;
  crc.Add(bytes);
  return crc.value();
}

uint32_t Crc32cOf(std::string_view bytes) {
  Crc32c crc;
  crc.Add(bytes);
  return crc.value();
}

uint32_t MaskedCrc32c(uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8u; }

}  // namespace crosstalk
