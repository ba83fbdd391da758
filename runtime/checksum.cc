#include "crosstalk/runtime/checksum.h"

#include <array>
#include <bit>
#include <cstring>

namespace crosstalk {
namespace {

constexpr uint64_t kReflectedPolynomial = 0xc96c5795d7870f42;  // 0x42f0e1eba9ea3693 with its bits in reverse

using Table = std::array<uint64_t, 256>;

// tables[k][b]: what byte b, followed by k zero bytes, contributes.
constexpr std::array<Table, 8> MakeTables() {
  std::array<Table, 8> tables{};
  for (uint64_t byte = 0; byte < 256; ++byte) {
    uint64_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReflectedPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (int k = 1; k < 8; ++k) {
    for (int byte = 0; byte < 256; ++byte) {
      const uint64_t crc = tables[k - 1][byte];
      tables[k][byte] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}

constexpr std::array<Table, 8> kTables = MakeTables();

}  // namespace

void Crc64::Update(const void* data, size_t size) {
  static_assert(std::endian::native == std::endian::little, "Crc64 reads eight bytes as a little-endian word");
  const auto* bytes = static_cast<const unsigned char*>(data);
  uint64_t crc = state_;
  for (; size >= 8; bytes += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    word ^= crc;
    crc = kTables[7][word & 0xff] ^ kTables[6][(word >> 8) & 0xff] ^ kTables[5][(word >> 16) & 0xff] ^
          kTables[4][(word >> 24) & 0xff] ^ kTables[3][(word >> 32) & 0xff] ^ kTables[2][(word >> 40) & 0xff] ^
          kTables[1][(word >> 48) & 0xff] ^ kTables[0][word >> 56];
  }
  for (; size > 0; ++bytes, --size) crc = (crc >> 8) ^ kTables[0][(crc ^ *bytes) & 0xff];
  state_ = crc;
}

uint64_t Crc64Of(std::string_view bytes) {
  Crc64 crc;
  crc.Update(bytes);
  return crc.value();
}

std::string ChecksumText(uint64_t crc64) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text = "crc64:";
  for (int shift = 60; shift >= 0; shift -= 4) text += kHex[(crc64 >> shift) & 15];
  return text;
}

}  // namespace crosstalk
