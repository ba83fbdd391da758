#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "crosstalk/runtime/checksum.h"

namespace crosstalk {
namespace crc32_test {

// The check values that the definitions of both give.
TEST(Crc32Test, GivesThePublishedCheckValues) {
  EXPECT_EQ(Crc32Of("123456789"), 0xCBF43926u);
  EXPECT_EQ(Crc32cOf("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32Of(""), 0u);
  EXPECT_EQ(Crc32cOf(""), 0u);
}

// The definition, bit by bit.
uint32_t SlowCrc32c(const std::string& bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
  }
  return ~crc;
}

TEST(Crc32Test, BytesAddedInPiecesAreTheSame) {
  std::string bytes;
  for (int i = 0; i < 61; ++i) bytes += static_cast<char>(i * i + 7 * i + 130);
  for (size_t length = 0; length <= bytes.size(); ++length) {
    const std::string part = bytes.substr(bytes.size() - length);  // misaligned starts
    EXPECT_EQ(Crc32cOf(part), SlowCrc32c(part)) << length;
    Crc32c pieces;
    pieces.Add(std::string_view(part).substr(0, length / 3));
    pieces.Add(std::string_view(part).substr(length / 3));
    EXPECT_EQ(pieces.value(), Crc32cOf(part)) << length;
  }
}

TEST(Crc32Test, AMaskedChecksumIsRotatedAndShifted) {
  EXPECT_EQ(MaskedCrc32c(0), 0xA282EAD8u);
  EXPECT_EQ(MaskedCrc32c(0x00008000u), 0xA282EAD9u);
  EXPECT_EQ(MaskedCrc32c(0x00000001u), 0xA284EAD8u);
}

}  // namespace crc32_test
}  // namespace crosstalk
