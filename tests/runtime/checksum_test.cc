#include "crosstalk/runtime/checksum.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "crosstalk/runtime/atomic_file.h"
#include "tests/support/temp_dir.h"

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

TEST(ChecksumTest, TextNamesTheAlgorithm) {
  EXPECT_EQ(ChecksumText(0x995dc9bbdf1939fau), "crc64:995dc9bbdf1939fa");
  EXPECT_EQ(ChecksumText(0x1fu), "crc64:000000000000001f");
}

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

std::string HexOf(const std::string& bytes) {
  Sha256 digest;
  digest.Update(bytes);
  return digest.Hex();
}

// The examples of FIPS 180-2, appendix B, and the empty message.
TEST(Sha256Test, HasThePublishedDigests) {
  EXPECT_EQ(HexOf(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HexOf("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HexOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(HexOf(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, AnyCutOfTheBytesGivesTheSameDigest) {
  std::string bytes;
  for (int i = 0; i < 200; ++i) bytes += static_cast<char>(i * 37);
  for (size_t size : {55, 56, 63, 64, 65, 119, 128, 200}) {
    const std::string part = bytes.substr(0, size);
    const std::string whole = HexOf(part);
    for (size_t cut = 0; cut <= size; cut += 7) {
      Sha256 digest;
      digest.Update(part.substr(0, cut));
      digest.Update("");
      digest.Update(part.substr(cut));
      EXPECT_EQ(digest.Hex(), whole) << size << " cut at " << cut;
      EXPECT_EQ(digest.Hex(), whole) << "asked twice";
    }
  }
}

TEST(Sha256Test, AFileHasTheDigestOfItsBytes) {
  const TempDir dir;
  const std::string bytes(200'000, 'x');
  WriteFileAtomically(dir / "file", bytes);
  EXPECT_EQ(Sha256OfFile(dir / "file"), HexOf(bytes));
  WriteFileAtomically(dir / "empty", "");
  EXPECT_EQ(Sha256OfFile(dir / "empty"), HexOf(""));
}

}  // namespace checksum_test
}  // namespace crosstalk
