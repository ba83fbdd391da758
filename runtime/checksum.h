// CRC-64 for manifests: detects every flipped bit, every burst of up to 64 bits, and other damage, such as truncation,
// except in one case in 2^64. It does not protect from deliberate changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

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
