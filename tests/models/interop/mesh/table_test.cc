#include "crosstalk/models/interop/mesh/table.h"

#include <snappy.h>

#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/protobuf.h"
#include "tests/support/bundles.h"
#include "tests/support/messages.h"

namespace crosstalk::table_test {

using testing::ExpectError;

constexpr size_t kFooter = 48, kMagic = 8;

std::string IndexOf(const std::string& name) {
  return ReadFile(BundleFixture(name) + (name.starts_with("mesh") ? "/model.ckpt-0.index" : "/variables.index"));
}

bool Same(const std::vector<TableEntry>& a, const std::vector<TableEntry>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].key != b[i].key || a[i].value != b[i].value) return false;
  }
  return true;
}

std::string Block(const std::string& content, char type) {
  std::string block = content + type;
  return block + LittleEndian(MaskedCrc32c(Crc32cOf(block)), 4);
}

// A table whose one block of entries has this content, with the right checksums.
std::string TableOf(const std::string& content, char type = 0, const std::string& last_key = "z") {
  std::string bytes = Block(content, type);
  TableBlockWriter index(1), meta(16);
  index.Add(last_key, Varint(0) + Varint(content.size()));
  std::string footer = Varint(bytes.size()) + Varint(meta.size());
  bytes += meta.Finish();
  footer += Varint(bytes.size()) + Varint(index.size());
  bytes += index.Finish();
  footer.resize(kFooter - kMagic, '\0');
  return bytes + footer + LittleEndian(0xDB4775248B80FB57u, kMagic);
}

std::string Entry(uint64_t shared, const std::string& fresh, const std::string& value) {
  return Varint(shared) + Varint(fresh.size()) + Varint(value.size()) + fresh + value;
}
std::string Restarts(const std::vector<uint32_t>& offsets) {
  std::string bytes;
  for (const uint32_t offset : offsets) bytes += LittleEndian(offset, 4);
  return bytes + LittleEndian(offsets.size(), 4);
}

void ExpectRefused(const std::string& table, const std::string& says) {
  ExpectError([&] { ReadTable(table, "x.index"); }, ErrorKind::kData, {"x.index", says});
}

TEST(TensorTableTest, WhatIsWrittenIsReadAgain) {
  std::vector<TableEntry> entries = {{"", "header"}};
  for (int i = 0; i < 20000; ++i) {
    entries.push_back({"encoder/block_" + std::to_string(1000000 + i) + "/kernel", std::string(i % 37, 'v')});
  }
  const std::string table = WriteTable(entries);
  EXPECT_GT(table.size(), size_t{512} << 10);  // several blocks
  EXPECT_TRUE(Same(ReadTable(table, "x"), entries));
  EXPECT_TRUE(Same(ReadTable(WriteTable({}), "x"), {}));
  // Where one block ends with the bytes 0xFF and the next begins with a name that those begin.
  std::vector<TableEntry> odd = {{"\xFF", std::string(300 << 10, 'a')}, {"\xFF\xFF", std::string(300 << 10, 'b')}};
  EXPECT_TRUE(Same(ReadTable(WriteTable(odd), "x"), odd));
}

// A single wrong bit anywhere is refused, or the table reads as it was: the footer's padding and what the block of
// nothing says.
TEST(TensorTableTest, ASingleWrongBitIsRefusedOrHarmless) {
  for (const char* name : {"half_plus_two_cpu", "half_plus_two_mkl", "half_plus_two_tf2_cpu", "mesh_t5_index_only"}) {
    const std::string good = IndexOf(name);
    const std::vector<TableEntry> entries = ReadTable(good, name);
    size_t harmless = 0;
    for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
      try {
        EXPECT_TRUE(Same(ReadTable(bad, name), entries)) << name << " bit " << bit;
        EXPECT_GE(bit / 8, good.size() - kFooter) << name;
        ++harmless;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kData);
      }
    }
    EXPECT_LT(harmless, 8 * (kFooter - kMagic)) << name;
  }
}

TEST(TensorTableTest, EveryTruncationIsRefused) {
  for (const char* name : {"half_plus_two_mkl", "mesh_t5_index_only"}) {
    const std::string good = IndexOf(name);
    for (size_t length = 0; length < good.size(); ++length) {
      EXPECT_THROW(ReadTable(good.substr(0, length), name), Error) << name << " " << length;
    }
    EXPECT_THROW(ReadTable(good + "x", name), Error);
  }
}

TEST(TensorTableTest, BlocksThatContradictThemselvesAreRefused) {
  const std::string one = Entry(0, "a", "1"), b = Entry(0, "b", "");
  const auto at = static_cast<uint32_t>(one.size());
  EXPECT_EQ(ReadTable(TableOf(one + Restarts({0})), "x").size(), 1u);
  const std::pair<std::string, const char*> kBlocks[] = {
      {"", "cut off"},
      {one + LittleEndian(0, 4) + LittleEndian(0, 4), "restarts"},
      {one + LittleEndian(0, 4) + LittleEndian(0xFFFFFFFF, 4), "restarts"},
      {one + Restarts({1}), "ascend"},
      {one + b + Restarts({0, 0}), "ascend"},
      {one + b + Restarts({0, 3}), "where no entry begins"},
      {one + b + Restarts({0, 4000}), "where no entry begins"},
      {one + Entry(1, "b", "") + Restarts({0, at}), "not whole"},
      {Entry(1, "a", "1") + Restarts({0}), "shares more"},
      {one + Entry(2, "b", "") + Restarts({0}), "shares more"},
      {one + Entry(0, "a", "") + Restarts({0}), "\"a\" after \"a\""},
      {b + Entry(0, "a", "") + Restarts({0}), "\"a\" after \"b\""},
      {Varint(0) + Varint(1) + Varint(99) + "a" + Restarts({0}), "longer than the block"},
      {Varint(0) + Varint(UINT64_MAX) + Varint(1) + "a" + Restarts({0}), "length"},
      {Entry(0, std::string(4097, 'a'), "") + Restarts({0}), "4096"},
      {Restarts({0}), "up to \"z\""},
  };
  for (const auto& [block, says] : kBlocks) ExpectRefused(TableOf(block), says);
  ExpectRefused(TableOf(one + Restarts({0}), 0, "A"), "up to \"A\"");
  ExpectRefused(TableOf(one + Restarts({0}), 2), "type 2");
}

TEST(TensorTableTest, SnappyIsReadAndItsBombsAreNot) {
  const std::string content = Entry(0, "a", std::string(5000, 'v')) + Restarts({0});
  std::string packed;
  snappy::Compress(content.data(), content.size(), &packed);
  EXPECT_LT(packed.size(), content.size() / 10);
  EXPECT_EQ(ReadTable(TableOf(packed, 1), "x")[0].value, std::string(5000, 'v'));
  ExpectRefused(TableOf(packed.substr(0, packed.size() - 1), 1), "snappy");
  ExpectRefused(TableOf(packed + "x", 1), "snappy");
  ExpectRefused(TableOf(Varint(uint64_t{1} << 31) + "x", 1), "snappy");  // says that it would be 2 GiB
  ExpectRefused(TableOf(std::string("\x05\x01\x00", 3), 1), "snappy");   // a copy of what is not there yet
  ExpectRefused(TableOf("", 1), "snappy");
}

// Names share up to 4096 bytes with the one before, so that three bytes could ask for as many.
TEST(TensorTableTest, NamesThatWouldTakeMuchMemoryAreRefused) {
  std::string content = Entry(0, std::string(4000, 'a'), "");
  for (int i = 0; i < 40000; ++i) {
    content += Varint(4000) + Varint(3) + Varint(0) +
               std::string({static_cast<char>(1 + i / 10000), static_cast<char>(1 + i / 100 % 100),
                            static_cast<char>(1 + i % 100)});
  }
  ExpectRefused(TableOf(content + Restarts({0})), "names and entries");
}

TEST(TensorTableTest, HandlesOutsideTheFileAreRefused) {
  const std::string good = TableOf(Entry(0, "a", "1") + Restarts({0}));
  const auto with_footer = [&](const std::string& handles) {
    std::string footer = handles;
    footer.resize(kFooter - kMagic, '\0');
    return good.substr(0, good.size() - kFooter) + footer + good.substr(good.size() - kMagic);
  };
  for (const uint64_t offset : {uint64_t{1} << 20, uint64_t{1} << 63, UINT64_MAX}) {
    ExpectRefused(with_footer(Varint(offset) + Varint(8) + Varint(0) + Varint(8)), "not within");
    ExpectRefused(with_footer(Varint(0) + Varint(offset) + Varint(0) + Varint(8)), "not within");
    ExpectRefused(with_footer(Varint(offset) + Varint(UINT64_MAX - offset + 9) + Varint(0) + Varint(8)), "not within");
  }
  const uint64_t last = good.size() - kFooter - kBlockTrailerBytes - 8;  // where a block of 8 bytes still fits
  ExpectRefused(with_footer(Varint(last) + Varint(8) + Varint(0) + Varint(8)), "is damaged");
  ExpectRefused(with_footer(Varint(last + 1) + Varint(8) + Varint(0) + Varint(8)), "not within");
  ExpectRefused(with_footer(std::string(40, '\xFF')), "where its blocks are");
}

}  // namespace crosstalk::table_test
