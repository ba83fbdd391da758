#include "crosstalk/models/interop/mesh/bundle.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/protobuf.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/bundles.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace bundle_test {

using testing::ExpectError;

// A row of expected.tsv.
struct Row {
  std::string name, type, shape;
  int64_t shard, offset, bytes;
  uint32_t crc;
  std::string values;
};

std::vector<Row> Expected(const std::string& folder) {
  std::vector<Row> rows;
  for (const std::string& line : Split(ReadFile(BundleFixture(folder) + "/expected.tsv"), '\n')) {
    const std::vector<std::string> cells = Split(line, '\t');
    if (cells.size() < 7 || cells[0] == "name") continue;
    rows.push_back({cells[0], cells[1], cells[2], std::stoll(cells[3]), std::stoll(cells[4]), std::stoll(cells[5]),
                    static_cast<uint32_t>(std::stoul(cells[6], nullptr, 16)), cells.size() > 7 ? cells[7] : ""});
  }
  return rows;
}

constexpr const char* kWhole[] = {"half_plus_two_cpu", "half_plus_two_mkl", "half_plus_two_tf2_cpu"};
constexpr const char* kMeshIndex = "mesh_t5_index_only";

TEST(TensorBundleTest, PublishedIndicesAreReadEntryByEntry) {
  for (const char* folder : {kWhole[0], kWhole[1], kWhole[2], kMeshIndex}) {
    SCOPED_TRACE(folder);
    const BundleIndex index =
        ReadBundleIndex(BundleFixture(folder) + (folder == kMeshIndex ? "/model.ckpt-0" : "/variables"));
    const std::vector<Row> rows = Expected(folder);
    EXPECT_EQ(index.shards, folder == kMeshIndex ? 2 : 1);
    ASSERT_EQ(index.entries.size(), rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      const BundleEntry& entry = index.entries[i];
      EXPECT_EQ(entry.name, rows[i].name);
      EXPECT_EQ(BundleTypeName(entry.type), rows[i].type) << entry.name;
      EXPECT_EQ(ToString(entry.shape), rows[i].shape) << entry.name;
      EXPECT_EQ(entry.shard, rows[i].shard) << entry.name;
      EXPECT_EQ(entry.offset, rows[i].offset) << entry.name;
      EXPECT_EQ(entry.size, rows[i].bytes) << entry.name;
      EXPECT_EQ(entry.masked_crc, rows[i].crc) << entry.name;
      EXPECT_EQ(index.Find(entry.name), &entry);
    }
    EXPECT_EQ(index.Find("no such name"), nullptr);
  }
}

TEST(TensorBundleTest, PublishedTensorsHaveTheirValues) {
  for (const char* folder : kWhole) {
    SCOPED_TRACE(folder);
    const TensorBundle bundle(BundleFixture(folder) + "/variables");
    for (const Row& row : Expected(folder)) {
      const BundleEntry& entry = *bundle.index().Find(row.name);
      if (row.type == "string") {
        ExpectError([&] { bundle.Read(entry); }, ErrorKind::kData, {row.name, "string"});
        continue;
      }
      const Tensor tensor = bundle.Read(entry);
      ASSERT_EQ(tensor.num_elements(), 1) << row.name;
      EXPECT_EQ(tensor.data<float>()[0], std::stof(row.values)) << row.name;
    }
  }
}

TEST(TensorBundleTest, AMissingShardIsNamed) {
  ExpectError([] { TensorBundle bundle(BundleFixture(kMeshIndex) + "/model.ckpt-0"); }, ErrorKind::kData,
              {"model.ckpt-0.data-00001-of-00002", "missing"});
}

// TensorFlow's own bytes, of its own tensors.
TEST(TensorBundleTest, TheWriterGivesThePublishedBytes) {
  const std::string published = BundleFixture("half_plus_two_mkl") + "/variables";
  const TensorBundle bundle(published);
  std::vector<BundleTensor> tensors;
  for (const BundleEntry& entry : bundle.index().entries) {
    tensors.insert(tensors.begin(), {entry.name, kBundleFloat32, bundle.Read(entry)});
  }
  const TempDir dir;
  WriteTensorBundle(dir / "variables", "variables", tensors);
  for (const char* end : {".index", ".data-00000-of-00001"}) {
    EXPECT_EQ(ReadFile(dir / "variables" + end), ReadFile(published + end)) << end;
  }
}

TEST(TensorBundleTest, EachTypeIsWrittenAndReadAgain) {
  const Tensor values = Tensor::FromValues<float>({2, 3}, {0, -0.0f, 1.00390625f, 3e38f, -1e-40f, 0.1f});
  const TempDir dir;
  WriteTensorBundle(dir / "x", "x",
                    std::vector<BundleTensor>{{"float", kBundleFloat32, values},
                                              {"half", kBundleBFloat16, values},
                                              {"step", kBundleInt64, Tensor::FromValues<int64_t>({}, {1 << 20})},
                                              {"nothing", kBundleFloat32, Tensor::Zeros({0, 4}, DType::kFloat32)}});
  const TensorBundle bundle(dir / "x");
  EXPECT_EQ(bundle.Read(*bundle.index().Find("float")).ToVector<float>(), values.ToVector<float>());
  const Tensor half = bundle.Read(*bundle.index().Find("half"));
  EXPECT_EQ(half.shape(), Shape({2, 3}));
  EXPECT_EQ(half.At({0, 2}), 1.0);  // a tie, to even
  EXPECT_EQ(half.At({1, 2}), 0.10009765625);
  EXPECT_EQ(bundle.Read(*bundle.index().Find("step")).data<int64_t>()[0], 1 << 20);
  EXPECT_EQ(bundle.Read(*bundle.index().Find("nothing")).shape(), Shape({0, 4}));
  ExpectError(
      [&] {
        WriteTensorBundle(dir / "y", "y",
                          std::vector<BundleTensor>{{"a", kBundleFloat32, values}, {"a", kBundleFloat32, values}});
      },
      ErrorKind::kUsage, {"\"a\"", "twice"});
}

class ForgedBundleTest : public ::testing::Test {
 protected:
  // x.index of these entries and one file of 64 bytes.
  void Refused(const std::vector<BundleEntry>& entries, const std::vector<std::string>& says, int64_t shards = 1) {
    WriteIndex(dir_ / "x", shards, entries);
    WriteFileBytes(BundleShardPath(dir_ / "x", 0, shards), std::string(64, '\1'));
    ExpectError([&] { TensorBundle bundle(dir_ / "x"); }, ErrorKind::kData, says);
  }
  static BundleEntry Entry(const std::string& name, int64_t offset = 0, int64_t size = 8) {
    return {.name = name, .type = kBundleFloat32, .shape = Shape({size / 4}), .offset = offset, .size = size};
  }
  // With a record whose bytes the test gives.
  void RefusedBytes(const std::string& key, const std::string& value, const std::vector<std::string>& says,
                    const std::string& header = BundleHeaderBytes(1)) {
    WriteFileBytes(dir_ / "x.index", WriteTable(std::vector<TableEntry>{{"", header}, {key, value}}));
    ExpectError([&] { ReadBundleIndex(dir_ / "x"); }, ErrorKind::kData, says);
  }

  TempDir dir_;
  static constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
};

TEST_F(ForgedBundleTest, PlacesOutsideTheFilesAreRefused) {
  Refused({Entry("a", 60)}, {"x.data-00000-of-00001", "\"a\"", "68", "64"});
  Refused({Entry("a", kMost - 4)}, {"x.index", "\"a\"", "beyond"});
  Refused({Entry("a", kMost - 8)}, {"\"a\""});
  BundleEntry elsewhere = Entry("a");
  elsewhere.shard = 1;
  Refused({elsewhere}, {"\"a\"", "file 1 of 1"});
  Refused({elsewhere}, {"x.data-00001-of-00002", "missing", "\"a\""}, 2);
  elsewhere.shard = kMost;
  Refused({elsewhere}, {"\"a\""});
}

TEST_F(ForgedBundleTest, SizesThatAreNotTheShapesAreRefused) {
  BundleEntry entry = Entry("a");
  entry.shape = Shape({3});
  Refused({entry}, {"x.index", "\"a\"", "8 bytes are not those of float32[3]"});
  for (const Shape& huge : {Shape({1LL << 62, 4}), Shape({1LL << 40, 1LL << 40}), Shape({0, 1LL << 62, 1LL << 62}),
                            Shape({kMost}), Shape({kMost, kMost, kMost})}) {
    for (const int64_t size : {int64_t{0}, int64_t{8}, kMost}) {
      entry.shape = huge;
      entry.size = size;
      Refused({entry}, {"\"a\""});
    }
  }
}

TEST_F(ForgedBundleTest, TensorsThatOverlapAreRefused) {
  Refused({Entry("a", 0), Entry("b", 4)}, {"\"b\"", "overlaps \"a\""});
  Refused({Entry("a", 8), Entry("b", 0, 12)}, {"\"a\"", "overlaps \"b\""});
  Refused({Entry("a", 8), Entry("b", 8)}, {"overlaps"});
}

TEST_F(ForgedBundleTest, HeadersThatAreNotReadAreRefused) {
  const std::string entry = BundleEntryBytes(Entry("a"));
  RefusedBytes("a", entry, {"0 files"}, "");
  RefusedBytes("a", entry, {"65537 files"}, BundleHeaderBytes(65537));
  RefusedBytes("a", entry, {"below 0"}, IntField(1, UINT64_MAX));
  RefusedBytes("a", entry, {"big-endian"}, IntField(1, 1) + IntField(2, 1));
  RefusedBytes("a", entry, {"version"}, IntField(1, 1) + BytesField(3, IntField(2, 2)));
  WriteFileBytes(dir_ / "x.index", WriteTable(std::vector<TableEntry>{{"a", entry}}));
  ExpectError([&] { ReadBundleIndex(dir_ / "x"); }, ErrorKind::kData, {"no header"});
}

TEST_F(ForgedBundleTest, RecordsThatAreNoneAreRefused) {
  const std::string good = BundleEntryBytes(Entry("a"));
  RefusedBytes("a", good + BytesField(7, ""), {"\"a\"", "partitioned"});
  RefusedBytes(std::string("\0a", 2), good, {"partitioned"});
  RefusedBytes("\xFF", good, {"UTF-8"});
  RefusedBytes("a", "\x0B", {"\"a\"", "unknown type"});  // a group
  RefusedBytes("a", IntField(5, UINT64_MAX), {"\"a\"", "below 0"});
  RefusedBytes("a", BytesField(2, BytesField(2, IntField(1, UINT64_MAX))), {"\"a\"", "below 0"});
  RefusedBytes("a", BytesField(2, IntField(3, 1)), {"\"a\"", "without rank"});
  std::string dims;
  for (int i = 0; i < 9; ++i) dims += BytesField(2, IntField(1, 1));
  RefusedBytes("a", BytesField(2, dims), {"\"a\"", "8"});
}

// Fields that are cut off are refused; where whole ones are, the checksum is missing.
TEST_F(ForgedBundleTest, TruncatedRecordsAreRefused) {
  const Tensor values = Tensor::FromValues<float>({2}, {1, 2});
  WriteTensorBundle(dir_ / "x", "x", std::vector<BundleTensor>{{"a", kBundleFloat32, values}});
  const BundleIndex written = ReadBundleIndex(dir_ / "x");
  const std::string good = BundleEntryBytes(written.entries[0]);
  for (size_t length = 1; length < good.size(); ++length) {
    WriteFileBytes(dir_ / "x.index",
                   WriteTable(std::vector<TableEntry>{{"", BundleHeaderBytes(1)}, {"a", good.substr(0, length)}}));
    EXPECT_THROW(
        {
          const TensorBundle bundle(dir_ / "x");
          bundle.Read(bundle.index().entries[0]);
        },
        Error)
        << length;
  }
}

// Every byte of the data is under a checksum, and every byte that is missing is missed.
TEST_F(ForgedBundleTest, DamagedAndTruncatedDataIsRefused) {
  const std::string data = ".data-00000-of-00001";
  WriteTensorBundle(dir_ / "x", "x",
                    std::vector<BundleTensor>{{"a", kBundleFloat32, Tensor::FromValues<float>({3}, {1, 2, 3})},
                                              {"b", kBundleBFloat16, Tensor::FromValues<float>({2, 2}, {1, 2, 3, 4})}});
  const std::string good = ReadFile(dir_ / "x" + data);
  ASSERT_EQ(good.size(), 20u);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    WriteFileBytes(dir_ / "x" + data, bad);
    const TensorBundle bundle(dir_ / "x");
    const char* const name = i < 12 ? "a" : "b";
    ExpectError([&] { bundle.Read(*bundle.index().Find(name)); }, ErrorKind::kData,
                {"x.data-00000-of-00001", Quoted(name), "checksum"});
    EXPECT_NO_THROW(bundle.Read(*bundle.index().Find(i < 12 ? "b" : "a")));
  }
  for (size_t length = 0; length < good.size(); ++length) {
    WriteFileBytes(dir_ / "x" + data, good.substr(0, length));
    ExpectError([&] { TensorBundle bundle(dir_ / "x"); }, ErrorKind::kData, {"x.data-00000-of-00001"});
  }
}

TEST_F(ForgedBundleTest, ATypeThatIsNotReadIsAnErrorOnlyWhereItIsWanted) {
  WriteIndex(dir_ / "x", 1, {{.name = "a", .type = 99, .shape = Shape({5}), .size = 3}, Entry("b", 8)});
  WriteFileBytes(dir_ / "x.data-00000-of-00001", std::string(64, '\1'));
  const TensorBundle bundle(dir_ / "x");
  ExpectError([&] { bundle.Read(bundle.index().entries[0]); }, ErrorKind::kData, {"\"a\"", "type 99"});
}

}  // namespace bundle_test
}  // namespace crosstalk
