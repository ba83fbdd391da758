#include <gtest/gtest.h>

#include <string>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/checksum.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace sha256_test {

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

}  // namespace sha256_test
}  // namespace crosstalk
