#include "crosstalk/runtime/checksum.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>

#include "crosstalk/runtime/atomic_file.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace checksum_test {

std::string Pattern(size_t size) {
  std::string bytes(size, '\0');
  uint32_t state = 1;
  for (char& byte : bytes) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

// A reflected checksum one bit at a time, from its definition.
template <typename T>
T Bitwise(std::string_view bytes, T polynomial) {
  T crc = ~T{0};
  for (const unsigned char byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0);
  }
  return ~crc;
}

// The published check value, the definition at every length and start, and any cut into calls.
template <typename T>
void ExpectChecksum(T (*of)(std::string_view), const std::function<T(std::string_view, std::string_view)>& of_pieces,
                    T polynomial, T check_value) {
  EXPECT_EQ(of("123456789"), check_value);
  const std::string bytes = Pattern(80);
  for (size_t start = 0; start < 9; ++start) {
    for (size_t size = 0; size + start <= bytes.size(); ++size) {
      const std::string_view part = std::string_view(bytes).substr(start, size);
      ASSERT_EQ(of(part), Bitwise(part, polynomial)) << "start " << start << " size " << size;
      ASSERT_EQ(of_pieces(bytes.substr(0, size), bytes.substr(size)), of(bytes)) << "cut at " << size;
    }
  }
}

TEST(ChecksumTest, EachFollowsItsDefinitionHoweverItsBytesAreGiven) {
  const auto by_add = []<typename Crc>(Crc) {
    return [](std::string_view a, std::string_view b) {
      Crc both;
      both.Add(a);
      both.Add(b);
      return both.value();
    };
  };
  ExpectChecksum<uint32_t>(Crc32Of, by_add(Crc32()), 0xEDB88320u, 0xCBF43926u);
  ExpectChecksum<uint32_t>(Crc32cOf, by_add(Crc32c()), 0x82F63B78u, 0xE3069283u);
  const auto crc64 = [](std::string_view a, std::string_view b) {
    Crc64 crc;
    crc.Update(a.data(), a.size());
    crc.Update(b.data(), b.size());
    return crc.value();
  };
  ExpectChecksum<uint64_t>(Crc64Of, crc64, 0xc96c5795d7870f42u, 0x995dc9bbdf1939fau);
  EXPECT_EQ(ChecksumText(0x1fu), "crc64:000000000000001f");
}

TEST(ChecksumTest, AMaskedOneIsRotatedAndShifted) {
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
  const std::string bytes = Pattern(200);
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
