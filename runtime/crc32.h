// Two checksums of 32 bits that file formats of others ask for. Our own files have CRC-64 (runtime/checksum.h).
#pragma once

#include <cstdint>
#include <string_view>

namespace crosstalk {

// CRC-32 of PNG, gzip and zip: polynomial 0x04c11db7; of "123456789" cbf43926. Of bytes that are added one piece after
// the other.
class Crc32 {
 public:
  void Add(std::string_view bytes);
  uint32_t value() const { return ~state_; }

 private:
  uint32_t state_ = ~uint32_t{0};
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

}  // namespace crosstalk
