#include "crosstalk/runtime/packed.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/messages.h"
#include "tests/support/packed.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace packed_test {

class PackedReaderTest : public ::testing::Test {
 protected:
  std::string Put(std::string_view bytes, const std::string& name = "text") { return dir_.Put(name, bytes); }
  // Read `piece` bytes at a time.
  static std::string Read(PackedReader& reader, size_t piece) {
    std::string all, part(piece, '\0');
    while (const size_t count = reader.Read(part.data(), piece)) all += part.substr(0, count);
    return all;
  }
  TempDir dir_;
};

std::string Text() {
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += std::to_string(i * i % 9973) + (i % 11 == 0 ? "\n" : " ");
  return text;
}

TEST_F(PackedReaderTest, GivesTheSameInPiecesOfAnySize) {
  const std::string text = Text();
  const size_t half = text.size() / 2;
  for (const std::string& bytes :
       {text, Gzip(text), Gzip(text.substr(0, half)) + Gzip(text.substr(half)), Gzip(text) + std::string(1000, '\0')}) {
    const FileReader file(Put(bytes));
    for (const size_t piece : {size_t{7}, size_t{65'536}, 2 * text.size()}) {
      PackedReader reader(file);
      EXPECT_EQ(reader.packing(), bytes == text ? Packing::kNone : Packing::kGzip);
      EXPECT_TRUE(Read(reader, piece) == text) << piece;
      char more;
      EXPECT_EQ(reader.Read(&more, 1), 0u);
    }
    EXPECT_TRUE(ReadUnpacked(file.path(), text.size()) == text);
    testing::ExpectError([&] { ReadUnpacked(file.path(), text.size() - 1); }, ErrorKind::kData,
                         {"text: has ", "more than the"});
  }
  EXPECT_EQ(ReadUnpacked(Put(Gzip("")), 10), "");
  EXPECT_EQ(ReadUnpacked(Put("\x1F"), 10), "\x1F");
}

TEST_F(PackedReaderTest, ReadsAPartOfAFile) {
  const std::string text = Text(), packed = Deflate(text);
  const FileReader file(Put("before" + packed + text + "after"));
  PackedReader deflated(file, Packing::kDeflate, 6, 6 + packed.size());
  EXPECT_TRUE(Read(deflated, 1000) == text);
  PackedReader stored(file, Packing::kNone, 6 + packed.size(), 6 + packed.size() + text.size());
  EXPECT_TRUE(Read(stored, 1000) == text);
  PackedReader longer(file, Packing::kDeflate, 6, 7 + packed.size());
  testing::ExpectError([&] { Read(longer, 1000); }, ErrorKind::kData, {"text: other bytes follow the packed data"});
}

TEST_F(PackedReaderTest, DamageNeverGivesAnotherText) {
  const std::string text = "a text of some length, a text of some length", packed = Gzip(text);
  size_t refused = 0;
  for (size_t i = 0; i < packed.size(); ++i) {
    testing::ExpectError([&] { ReadUnpacked(Put(packed.substr(0, i), "text.gz"), 1000); }, ErrorKind::kData,
                         {"text.gz: "});
    std::string damaged = packed;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    try {
      EXPECT_EQ(ReadUnpacked(Put(damaged, "text.gz"), 1000), text) << i;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData) << i;
      ++refused;
    }
  }
  // All but the time, two bytes of what packed it, and bits that fill the last byte up.
  EXPECT_EQ(refused, packed.size() - 7);
  testing::ExpectRefused<std::string>(
      {{"other bytes", packed + "other", {"damaged"}},
       {"after zeros", packed + std::string("\0x", 2), {"other bytes follow"}},
       {"not packed", "text", {"is named .gz, but its first bytes are not gzip's"}}},
      [&](const std::string& bytes) { ReadUnpacked(Put(bytes, "text.gz"), 1000); }, ErrorKind::kData);
}

TEST_F(PackedReaderTest, ABombIsStopped) {
  std::string bomb;
  const std::string member = Gzip(std::string(1 << 20, '\0'));
  while (bomb.size() <= (kFreelyUnpackedBytes >> 20) * member.size()) bomb += member;
  const FileReader file(Put(bomb));
  ASSERT_LT(file.size(), 100'000u);
  PackedReader reader(file);
  testing::ExpectError([&] { Read(reader, 1 << 20); }, ErrorKind::kData, {"become more than 67108864"});
  for (const uint64_t packed : {uint64_t{0}, uint64_t{1000}, uint64_t{1} << 20, uint64_t{1} << 40}) {
    EXPECT_GE(MostUnpacked(packed), packed);
    EXPECT_LE(MostUnpacked(packed) / 1032, packed + 1);
  }
  EXPECT_EQ(MostUnpacked(UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(MostUnpacked(uint64_t{1} << 30), uint64_t{256} << 30);
}

}  // namespace packed_test
}  // namespace crosstalk
