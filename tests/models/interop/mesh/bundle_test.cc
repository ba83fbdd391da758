#include "crosstalk/models/interop/mesh/bundle.h"

#include "crosstalk/runtime/protobuf.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/bundles.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::bundle_test {

using testing::ExpectError;

// The rows of expected.tsv: name, type, shape, file, offset, bytes, checksum, values.
std::vector<std::vector<std::string>> Expected(const std::string& folder) {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : Split(ReadFile(BundleFixture(folder) + "/expected.tsv"), '\n')) {
    const std::vector<std::string> cells = Split(line, '\t');
    if (cells.size() >= 7 && cells[0] != "name") rows.push_back(cells);
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
    const auto rows = Expected(folder);
    EXPECT_EQ(index.shards, folder == kMeshIndex ? 2 : 1);
    ASSERT_EQ(index.entries.size(), rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      const BundleEntry& entry = index.entries[i];
      const std::vector<std::string> cells = {entry.name,          BundleTypeName(entry.type), ToString(entry.shape),
                                              StrCat(entry.shard), StrCat(entry.offset),       StrCat(entry.size)};
      EXPECT_EQ(cells, std::vector<std::string>(rows[i].begin(), rows[i].begin() + 6));
      EXPECT_EQ(entry.masked_crc, std::stoul(rows[i][6], nullptr, 16)) << entry.name;
      EXPECT_EQ(index.Find(entry.name), &entry);
    }
    EXPECT_EQ(index.Find("no such name"), nullptr);
  }
}

TEST(TensorBundleTest, PublishedTensorsHaveTheirValues) {
  for (const char* folder : kWhole) {
    SCOPED_TRACE(folder);
    const TensorBundle bundle(BundleFixture(folder) + "/variables");
    for (const std::vector<std::string>& row : Expected(folder)) {
      const BundleEntry& entry = *bundle.index().Find(row[0]);
      if (row[1] == "string") {
        ExpectError([&] { bundle.Read(entry); }, ErrorKind::kData, {row[0], "string"});
        continue;
      }
      const Tensor tensor = bundle.Read(entry);
      ASSERT_EQ(tensor.num_elements(), 1) << row[0];
      EXPECT_EQ(tensor.data<float>()[0], std::stof(row.at(7))) << row[0];
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
    PutFile(BundleShardPath(dir_ / "x", 0, shards), std::string(64, '\1'));
    ExpectError([&] { TensorBundle bundle(dir_ / "x"); }, ErrorKind::kData, says);
  }
  static BundleEntry Entry(const std::string& name, int64_t offset = 0, int64_t size = 8) {
    return {.name = name, .type = kBundleFloat32, .shape = Shape({size / 4}), .offset = offset, .size = size};
  }
  TempDir dir_;
  static constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
};

TEST_F(ForgedBundleTest, PlacesAndSizesThatCannotBeAreRefused) {
  Refused({Entry("a", 60)}, {"x.data-00000-of-00001", "\"a\"", "68", "64"});
  Refused({Entry("a", kMost - 4)}, {"x.index", "\"a\"", "beyond"});
  Refused({Entry("a", kMost - 8)}, {"\"a\""});
  BundleEntry elsewhere = Entry("a");
  elsewhere.shard = 1;
  Refused({elsewhere}, {"\"a\"", "file 1 of 1"});
  Refused({elsewhere}, {"x.data-00001-of-00002", "missing", "\"a\""}, 2);
  elsewhere.shard = kMost;
  Refused({elsewhere}, {"\"a\""});
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
  Refused({Entry("a", 0), Entry("b", 4)}, {"\"b\"", "overlaps \"a\""});
  Refused({Entry("a", 8), Entry("b", 0, 12)}, {"\"a\"", "overlaps \"b\""});
  Refused({Entry("a", 8), Entry("b", 8)}, {"overlaps"});
}

TEST_F(ForgedBundleTest, HeadersAndRecordsThatAreNoneAreRefused) {
  struct Index {
    std::string key, value, header = BundleHeaderBytes(1);
  };
  const std::string good = BundleEntryBytes(Entry("a")), below = IntField(1, UINT64_MAX);
  std::string dims;
  for (int i = 0; i < 9; ++i) dims += BytesField(2, IntField(1, 1));
  testing::ExpectRefused<Index>(
      {{"no files", {"a", good, ""}, {"0 files"}},
       {"many files", {"a", good, BundleHeaderBytes(65537)}, {"65537 files"}},
       {"files below 0", {"a", good, below}, {"below 0"}},
       {"big-endian", {"a", good, IntField(1, 1) + IntField(2, 1)}, {"big-endian"}},
       {"a version", {"a", good, IntField(1, 1) + BytesField(3, IntField(2, 2))}, {"version"}},
       {"parts", {"a", good + BytesField(7, "")}, {"\"a\"", "partitioned"}},
       {"a part", {std::string("\0a", 2), good}, {"partitioned"}},
       {"no UTF-8", {"\xFF", good}, {"UTF-8"}},
       {"a group", {"a", "\x0B"}, {"\"a\"", "unknown type"}},
       {"a size below 0", {"a", IntField(5, UINT64_MAX)}, {"\"a\"", "below 0"}},
       {"a dimension below 0", {"a", BytesField(2, BytesField(2, below))}, {"\"a\"", "below 0"}},
       {"no rank", {"a", BytesField(2, IntField(3, 1))}, {"\"a\"", "without rank"}},
       {"nine dimensions", {"a", BytesField(2, dims)}, {"\"a\"", "8"}}},
      [&](const Index& index) {
        dir_.Put("x.index", WriteTable(std::vector<TableEntry>{{"", index.header}, {index.key, index.value}}));
        ReadBundleIndex(dir_ / "x");
      },
      ErrorKind::kData);
  dir_.Put("x.index", WriteTable(std::vector<TableEntry>{{"a", good}}));
  ExpectError([&] { ReadBundleIndex(dir_ / "x"); }, ErrorKind::kData, {"no header"});
}

// Fields that are cut off are refused; where whole ones are, the checksum is missing.
TEST_F(ForgedBundleTest, TruncatedRecordsAreRefused) {
  const Tensor values = Tensor::FromValues<float>({2}, {1, 2});
  WriteTensorBundle(dir_ / "x", "x", std::vector<BundleTensor>{{"a", kBundleFloat32, values}});
  const BundleIndex written = ReadBundleIndex(dir_ / "x");
  const std::string good = BundleEntryBytes(written.entries[0]);
  for (size_t length = 1; length < good.size(); ++length) {
    PutFile(dir_ / "x.index",
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
    PutFile(dir_ / "x" + data, bad);
    const TensorBundle bundle(dir_ / "x");
    const char* const name = i < 12 ? "a" : "b";
    ExpectError([&] { bundle.Read(*bundle.index().Find(name)); }, ErrorKind::kData,
                {"x.data-00000-of-00001", Quoted(name), "checksum"});
    EXPECT_NO_THROW(bundle.Read(*bundle.index().Find(i < 12 ? "b" : "a")));
  }
  for (size_t length = 0; length < good.size(); ++length) {
    PutFile(dir_ / "x" + data, good.substr(0, length));
    ExpectError([&] { TensorBundle bundle(dir_ / "x"); }, ErrorKind::kData, {"x.data-00000-of-00001"});
  }
}

TEST_F(ForgedBundleTest, ATypeThatIsNotReadIsAnErrorOnlyWhereItIsWanted) {
  WriteIndex(dir_ / "x", 1, {{.name = "a", .type = 99, .shape = Shape({5}), .size = 3}, Entry("b", 8)});
  PutFile(dir_ / "x.data-00000-of-00001", std::string(64, '\1'));
  const TensorBundle bundle(dir_ / "x");
  ExpectError([&] { bundle.Read(bundle.index().entries[0]); }, ErrorKind::kData, {"\"a\"", "type 99"});
}

}  // namespace crosstalk::bundle_test
