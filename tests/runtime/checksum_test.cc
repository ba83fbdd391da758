#include "crosstalk/runtime/checksum.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace crosstalk {
namespace checksum_test {

// CRC-64/XZ one bit at a time, from its definition.
uint64_t BitwiseCrc64(const std::string& bytes) {
  uint64_t crc = ~uint64_t{0};
  for (unsigned char byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xc96c5795d7870f42u : 0);
  }
  return ~crc;
}

std::string Pattern(size_t size) {
  std::string bytes(size, '\0');
  uint32_t state = 1;
  for (char& byte : bytes) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

TEST(ChecksumTest, MatchesThePublishedCheckValue) {
  EXPECT_EQ(Crc64Of("123456789"), 0x995dc9bbdf1939fau);
  EXPECT_EQ(Crc64Of(""), 0u);
}

TEST(ChecksumTest, TablesAgreeWithTheDefinitionAtEveryLengthAndStart) {
  const std::string bytes = Pattern(80);
  for (size_t start = 0; start < 9; ++start) {
    for (size_t size = 0; size + start <= bytes.size(); ++size) {
      const std::string part = bytes.substr(start, size);
      ASSERT_EQ(Crc64Of(std::string_view(bytes).substr(start, size)), BitwiseCrc64(part))
          << "start " << start << " size " << size;
    }
  }
}

TEST(ChecksumTest, AnyCutIntoCallsGivesTheSame) {
  const std::string bytes = Pattern(61);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    Crc64 crc;
    crc.Update(bytes.data(), cut);
    crc.Update(bytes.data() + cut, bytes.size() - cut);
    EXPECT_EQ(crc.value(), Crc64Of(bytes)) << "cut at " << cut;
  }
}

TEST(ChecksumTest, EverySingleBitFlipAndTruncationChangesIt) {
  const std::string bytes = Pattern(200);
  std::set<uint64_t> seen = {Crc64Of(bytes)};
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_TRUE(seen.insert(Crc64Of(flipped)).second) << "bit " << bit;
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_TRUE(seen.insert(Crc64Of(std::string_view(bytes).substr(0, size))).second) << "size " << size;
  }
}

TEST(ChecksumTest, TextNamesTheAlgorithm) {
  EXPECT_EQ(ChecksumText(0x995dc9bbdf1939fau), "crc64:995dc9bbdf1939fa");
  EXPECT_EQ(ChecksumText(0x1fu), "crc64:000000000000001f");
}

}  // namespace checksum_test
}  // namespace crosstalk
