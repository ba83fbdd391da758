// Two checksums of 32 bits that file formats of others ask for. Our own files have CRC-64 (runtime/checksum.h).
#pragma once

#include <cstdint>
#include <string_view>

namespace crosstalk {

// CRC-32 of PNG and zlib: polynomial 0x04c11db7; of "123456789" cbf43926.
uint32_t Crc32Of(std::string_view bytes);

// CRC-32C (Castagnoli) of TensorFlow's records: polynomial 0x1edc6f41; of "123456789" e3069283.
uint32_t Crc32cOf(std::string_view bytes);

}  // namespace crosstalk
