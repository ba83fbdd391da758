// SHA-256 (FIPS 180-4): tells files apart for people who check them elsewhere, with `sha256sum`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace crosstalk {

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
