// Checksums: CRC-64 of our own files, CRC-32 and CRC-32C of other people's formats, and SHA-256.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace crosstalk {

// CRC-64 for manifests: detects every flipped bit, every burst of up to 64 bits, and other damage, such as truncation,
// except in one case in 2^64. It does not protect from deliberate changes.

// CRC-64/XZ: polynomial 0x42f0e1eba9ea3693 (ECMA-182) reflected, start and final exclusive-or all ones; the checksum
// of "123456789" is 995dc9bbdf1939fa. Eight bytes a step with eight tables.
class Crc64 {
 public:
  // Appends `size` bytes; any cut of the same bytes into calls gives the same value.
  void Update(const void* data, size_t size);
  void Update(std::string_view bytes) { Update(bytes.data(), bytes.size()); }
  uint64_t value() const { return ~state_; }

 private:
  uint64_t state_ = ~uint64_t{0};
};

uint64_t Crc64Of(std::string_view bytes);

// "crc64:995dc9bbdf1939fa", the form that manifests hold: the algorithm, then 16 lower-case hexadecimal digits.
std::string ChecksumText(uint64_t crc64);

}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk {

// Two checksums of 32 bits that other people's formats ask for.

// CRC-32 of PNG, gzip and zip, by zlib: polynomial 0x04c11db7; of "123456789" cbf43926. Bytes are added one piece after
// the other.
class Crc32 {
 public:
  void Add(std::string_view bytes);
  uint32_t value() const { return state_; }

 private:
  uint32_t state_ = 0;
};
uint32_t Crc32Of(std::string_view bytes);

// CRC-32C (Castagnoli) of TensorFlow's records and checkpoints: polynomial 0x1edc6f41; of "123456789" e3069283. The
// same.
class Crc32c {
 public:
  void Add(std::string_view bytes);
  uint32_t value() const { return ~state_; }

 private:
  uint32_t state_ = ~uint32_t{0};
};
uint32_t Crc32cOf(std::string_view bytes);

// A checksum as such files hold it: of bytes that hold checksums, one that no accident makes.
uint32_t MaskedCrc32c(uint32_t crc);

// SHA-256 (FIPS 180-4): tells files apart for people who check them elsewhere, with `sha256sum`.

class Sha256 {
 public:
  // Appends `size` bytes; any cut of the same bytes into calls gives the same digest.
  void Update(const void* data, size_t size);
  void Update(std::string_view bytes) { Update(bytes.data(), bytes.size()); }
  // The digest of what was appended: 64 lower-case hexadecimal digits, as `sha256sum` prints it.
  std::string Hex() const;

 private:
  static constexpr size_t kBlock = 64;

  void Pad();
  void Compress(const unsigned char* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, kBlock> rest_ = {};  // less than a block that waits for more
  uint64_t size_ = 0;                            // bytes appended
};

// Error(kData) as FileReader has it where the file is missing or cannot be read.
std::string Sha256OfFile(const std::string& path);

}  // namespace crosstalk
