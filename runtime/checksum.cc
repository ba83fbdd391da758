#include "crosstalk/runtime/checksum.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#include "crosstalk/runtime/atomic_file.h"

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

namespace {

using CrcTable = std::array<uint32_t, 256>;

// tables[k][byte]: what a byte does to CRC-32C with k bytes of zeros after it, so that eight bytes are looked up side
// by side. The polynomial's bits are reversed: bit 0 is the coefficient of x³¹.
constexpr std::array<CrcTable, 8> MakeCastagnoli() {
  std::array<CrcTable, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = before >> 8 ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr std::array<CrcTable, 8> kCastagnoli = MakeCastagnoli();
static_assert(std::endian::native == std::endian::little, "eight bytes are read as one number");

}  // namespace

void Crc32::Add(std::string_view bytes) {
  state_ = static_cast<uint32_t>(crc32_z(state_, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

void Crc32c::Add(std::string_view bytes) {
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t eight;
    std::memcpy(&eight, bytes.data(), 8);
    eight ^= state_;
    state_ = 0;
    for (size_t i = 0; i < 8; ++i) state_ ^= kCastagnoli[7 - i][eight >> 8 * i & 0xFF];
  }
  for (const char c : bytes) state_ = state_ >> 8 ^ kCastagnoli[0][(state_ ^ static_cast<unsigned char>(c)) & 0xFF];
}

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

namespace {

// The first 32 fractional bits of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t BigEndian(const unsigned char* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | uint32_t{bytes[3]};
}

}  // namespace

void Sha256::Update(const void* data, size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  size_t waiting = size_ % kBlock;
  size_ += size;
  while (size > 0) {
    if (waiting == 0 && size >= kBlock) {
      Compress(bytes);
      bytes += kBlock;
      size -= kBlock;
      continue;
    }
    const size_t part = std::min(size, kBlock - waiting);
    std::memcpy(rest_.data() + waiting, bytes, part);
    bytes += part;
    size -= part;
    waiting = (waiting + part) % kBlock;
    if (waiting == 0) Compress(rest_.data());
  }
}

std::string Sha256::Hex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  Sha256 whole = *this;
  whole.Pad();
  std::string text;
  for (const uint32_t word : whole.state_) {
    for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[(word >> shift) & 15];
  }
  return text;
}

// A one bit, zeros to eight bytes before a block's end, and the number of bits.
void Sha256::Pad() {
  const uint64_t bits = 8 * size_;
  const unsigned char one = 0x80, zero = 0;
  Update(&one, 1);
  while (size_ % kBlock != kBlock - 8) Update(&zero, 1);
  unsigned char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(bits >> (56 - 8 * i));
  Update(length, 8);
}

void Sha256::Compress(const unsigned char* block) {
  std::array<uint32_t, 64> w;
  for (size_t t = 0; t < 16; ++t) w[t] = BigEndian(block + 4 * t);
  for (size_t t = 16; t < 64; ++t) {
    const uint32_t near = w[t - 2], far = w[t - 15];
    const uint32_t s1 = std::rotr(near, 17) ^ std::rotr(near, 19) ^ (near >> 10);
    const uint32_t s0 = std::rotr(far, 7) ^ std::rotr(far, 18) ^ (far >> 3);
    w[t] = s1 + w[t - 7] + s0 + w[t - 16];
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t t = 0; t < 64; ++t) {
    const uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + sum1 + ((e & f) ^ (~e & g)) + kRounds[t] + w[t];
    const uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1;
    d = c, c = b, b = a, a = t1 + t2;
  }
  const std::array<uint32_t, 8> sums = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < sums.size(); ++i) state_[i] += sums[i];
}

std::string Sha256OfFile(const std::string& path) {
  FileReader file(path);
  Sha256 digest;
  std::string buffer(1 << 16, '\0');
  for (uint64_t offset = 0; offset < file.size(); offset += buffer.size()) {
    const size_t part = static_cast<size_t>(std::min<uint64_t>(file.size() - offset, buffer.size()));
    file.ReadAt(offset, buffer.data(), part);
    digest.Update(buffer.data(), part);
  }
  return digest.Hex();
}

}  // namespace crosstalk
