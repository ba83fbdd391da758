#include "crosstalk/runtime/numpy_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "crosstalk/runtime/packed.h"
#include "tests/support/messages.h"
#include "tests/support/packed.h"
#include "tests/support/run_command.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace numpy_file_test {

using namespace std::string_literals;

// An .npy of this header's text, not padded: NumPy reads that too.
std::string Npy(const std::string& header, const std::string& data, int version = 1) {
  return "\x93NUMPY" + LittleEndian(static_cast<uint64_t>(version), 2) +
         LittleEndian(header.size(), version == 1 ? 2 : 4) + header + data;
}
std::string Header(const std::string& dtype, const std::string& shape, const std::string& fortran = "False") {
  return "{'descr': '" + dtype + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

class NumpyFileTest : public ::testing::Test {
 protected:
  void ExpectRefused(const std::string& name, const std::string& bytes, const std::string& says) {
    SCOPED_TRACE(says);
    dir_.Put(name, bytes);
    testing::ExpectError([&] { ReadTensors(dir_ / name); }, ErrorKind::kData, {dir_ / name, says});
  }
  TempDir dir_;
};

TEST_F(NumpyFileTest, ArraysOfEveryForm) {
  const std::string f4 = "\0\0\x80\x3F\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xA0\x40\0\0\xC0\x40"s;  // 1 … 6
  const struct {
    std::string bytes;
    DType dtype;
    Shape shape;
    std::vector<double> values;
  } kCases[] = {
      {Npy(Header("<f4", "(2, 3)"), f4), DType::kFloat32, {2, 3}, {1, 2, 3, 4, 5, 6}},
      {Npy(Header("<f4", "(2, 3)", "True"), f4), DType::kFloat32, {2, 3}, {1, 3, 5, 2, 4, 6}},
      {Npy(Header("<f4", "(1,2,3)", "True"), f4), DType::kFloat32, {1, 2, 3}, {1, 3, 5, 2, 4, 6}},
      {Npy(Header("<f4", "(6,)"), f4, 2), DType::kFloat32, {6}, {1, 2, 3, 4, 5, 6}},
      {Npy(Header("=f4", "(6L,)"), f4, 3), DType::kFloat32, {6}, {1, 2, 3, 4, 5, 6}},
      {Npy(Header(">f4", "(2,)"), "\x3F\x80\0\0\x40\0\0\0"s), DType::kFloat32, {2}, {1, 2}},
      {Npy(Header("<f8", "()"), "\0\0\0\0\0\0\xF8\x3F"s), DType::kFloat64, {}, {1.5}},
      {Npy(Header(">f8", "(1,)"), "\x3F\xF8\0\0\0\0\0\0"s), DType::kFloat64, {1}, {1.5}},
      {Npy(Header("<f2", "(2,)"), "\0\x3C\0\xC0"s), DType::kFloat32, {2}, {1, -2}},
      {Npy(Header(">f2", "(2,)"), "\x3C\0\xC0\0"s), DType::kFloat32, {2}, {1, -2}},
      {Npy(Header("<i4", "(2,)"), "\1\0\0\0\xFE\xFF\xFF\xFF"s), DType::kInt32, {2}, {1, -2}},
      {Npy(Header(">i8", "(1,)"), "\0\0\0\0\0\0\1\2"s), DType::kInt64, {1}, {258}},
      {Npy(Header("|b1", "(2, 1)"), "\0\1"s), DType::kBool, {2, 1}, {0, 1}},
      {Npy(Header("<f4", "(0, 3)"), ""), DType::kFloat32, {0, 3}, {}},
      {Npy(Header("<f4", "(3, 0)", "True"), ""), DType::kFloat32, {3, 0}, {}},
      {Npy("{\"shape\":(1,),\"fortran_order\":False , \"descr\":\"<f4\"}", f4.substr(0, 4)), DType::kFloat32, {1}, {1}},
  };
  for (const auto& one : kCases) {
    SCOPED_TRACE(::testing::PrintToString(one.bytes));
    const TensorFile file = ReadTensors(dir_.Put("input_ids.npy", one.bytes));
    ASSERT_EQ(file.tensors.size(), 1u);
    EXPECT_EQ(file.tensors[0].name, "input_ids");
    const Tensor& tensor = file.tensors[0].tensor;
    EXPECT_EQ(tensor.dtype(), one.dtype);
    EXPECT_EQ(tensor.shape(), one.shape);
    EXPECT_TRUE(tensor.is_contiguous());
    EXPECT_EQ(tensor.To(DType::kFloat64).ToVector<double>(), one.values);
    // As members, stored and deflated, beside another.
    for (const bool zip64 : {false, true}) {
      for (const auto member : {Stored, Deflated}) {
        const std::string archive = Zip({member("z/b.npy", one.bytes), member("a.npy", kCases[0].bytes)}, zip64);
        const TensorFile both = ReadTensors(dir_.Put("two.npz", archive));
        ASSERT_EQ(both.tensors.size(), 2u);
        EXPECT_EQ(both.tensors[0].name, "a");
        EXPECT_EQ(both.At("z/b").To(DType::kFloat64).ToVector<double>(), one.values);
      }
    }
  }
  EXPECT_TRUE(ReadTensors(dir_.Put("none.npz", Zip({}))).tensors.empty());
  // The content tells, not the name.
  EXPECT_EQ(ReadTensors(dir_.Put("X", kCases[0].bytes)).tensors[0].name, "X");
}

TEST_F(NumpyFileTest, WhatIsNoArrayOfNumbersIsRefusedByName) {
  const std::string four(4, '\0');
  const struct {
    std::string bytes, says;
  } kCases[] = {
      {"", "ends too early"},
      {"\x93NUMPY", "ends too early"},
      {"\x93NUMPX" + four, "does not begin as an .npy does"},
      {Npy(Header("<f4", "(1,)"), four, 4), "version 4.0"},
      {"\x93NUMPY\1\1" + four, "version 1.1"},
      {"\x93NUMPY\2\0\xFF\xFF\xFF\xFF"s, "a header of 4294967295 bytes"},
      {"\x93NUMPY\1\0\x90\0{"s, "ends too early: truncated"},
      {Npy(Header("|O", "(1,)"), four), "\"|O\" cannot be loaded here: it is of Python objects"},
      {Npy(Header("<c8", "(1,)"), four), "the dtype \"<c8\" cannot be loaded here; f2, f4, f8, i4, i8 and b1 can"},
      {Npy(Header("<U4", "(1,)"), four), "the dtype \"<U4\""},
      {Npy(Header("<i2", "(1,)"), four), "the dtype \"<i2\""},
      {Npy(Header("f4", "(1,)"), four), "the dtype \"f4\""},
      {Npy(Header("|f4", "(1,)"), four), "the dtype \"|f4\""},
      {Npy(Header("", "(1,)"), four), "the dtype \"\""},
      {Npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}", four), "a structured dtype"},
      {Npy("{'descr': '<f4', 'fortran_order': False}", four), "not all of descr, fortran_order and shape"},
      {Npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", four), "\"descr\" twice"},
      {Npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", four), "neither True nor False"},
      {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", four), "the key \"more\""},
      {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': 1}", four), "no (, at byte"},
      {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", four), "no comma after a size"},
      {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}", four), "no comma after a size"},
      {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", four), "a size that is no number"},
      {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", four), "too large"},
      {Npy("{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", four), "no comma after descr"},
      {Npy("{'descr': '<f4", four), "no string"},
      {Npy(Header("<f4", "(1,)") + "x", four), "more after its dictionary"},
      {Npy("", four), "no {"},
      {Npy(Header("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), four), "9 dimensions, more than 8"},
      {Npy(Header("<f4", "(2,)"), four), "the shape [2] takes 8 bytes, but 4 follow: truncated"},
      {Npy(Header("<f4", "()"), four + four), "takes 4 bytes, but 8 follow: there is more than one array"},
      {Npy(Header("<f4", "(4611686018427387904, 4)"), four), "overflows"},
      {Npy(Header("<f4", "(4611686018427387904, 4, 0)"), ""), "overflows"},
      {Npy(Header("<f4", "(4611686018427387903,)"), four), "overflows"},
      {Npy(Header("|b1", "(4,)"), "\0\1\2\1"s), "BOOL element 2 is 2, not 0 or 1"},
  };
  for (const auto& [bytes, says] : kCases) {
    ExpectRefused("x.npy", bytes, says);
    ExpectRefused("x.npz", Zip({Deflated("x.npy", bytes)}), "member 'x.npy': ");
  }
  const std::string good = Npy(Header("<f4", "(1,)"), four);
  for (size_t i = 0; i < good.size(); ++i) ExpectRefused("x.npy", good.substr(0, i), "");
}

TEST_F(NumpyFileTest, ArchivesThatLieAreRefused) {
  const std::string array = Npy(Header("<f4", "(2,)"), std::string(8, '\1'));
  const auto changed = [&](const auto& change) {
    ZipEntry entry = Deflated("x.npy", array);
    change(entry);
    return Zip({entry, Stored("y.npy", array)});
  };
  const std::string good = Zip({Stored("x.npy", array), Deflated("y.npy", array)});
  ASSERT_EQ(ReadTensors(dir_.Put("good.npz", good)).tensors.size(), 2u);
  EXPECT_EQ(ReadTensors(dir_.Put("good.npz", good.substr(0, good.size() - 2) + "\3\0abc"s)).tensors.size(), 2u)
      << "a comment";
  const struct {
    std::string bytes, says;
  } kCases[] = {
      {changed([](ZipEntry& entry) { entry.flags = 1; }), "member \"x.npy\": is encrypted"},
      {changed([](ZipEntry& entry) { entry.method = 12; }), "is packed by method 12"},
      {changed([](ZipEntry& entry) { entry.method = 0; }), "is stored, but"},
      {changed([](ZipEntry& entry) { ++entry.crc; }), "member 'x.npy': its checksum is wrong"},
      {changed([](ZipEntry& entry) { --entry.size; }), "member 'x.npy': the shape [2] takes 8 bytes, but 7 follow"},
      {changed([](ZipEntry& entry) { ++entry.size; }), "member 'x.npy': the shape [2] takes 8 bytes, but 9 follow"},
      {changed([](ZipEntry& entry) { entry.size = uint64_t{1} << 31; }), "are to become 2147483648, more than"},
      {changed([&](ZipEntry& entry) { entry.bytes = Deflate(array + "x"); }), "is longer than the archive says"},
      {changed([](ZipEntry& entry) { entry.bytes.pop_back(); }), "cut off"},
      {changed([](ZipEntry& entry) { entry.name = "y.npy"; }), "member \"y.npy\": is there twice"},
      {changed([](ZipEntry& entry) { entry.name = "x.txt"; }), "member 'x.txt': is no .npy"},
      {changed([](ZipEntry& entry) { entry.name = ".npy"; }), "the name is empty"},
      {changed([](ZipEntry& entry) { entry.name = "a\nb.npy"; }), "control character"},
      {changed([](ZipEntry& entry) { entry.name = "\xFF.npy"; }), "not UTF-8"},
      {good.substr(1), "does not end at byte"},
      {"PK\3\4" + std::string(100, 'x'), "has no zip directory at its end"},
  };
  for (const auto& [bytes, says] : kCases) ExpectRefused("x.npz", bytes, says);
  for (size_t i = 4; i < good.size(); ++i) ExpectRefused("x.npz", good.substr(0, i), "");
  // Every field of the directory and of the end: refused or without effect, never something else.
  const std::vector<float> values = ReadTensors(dir_ / "good.npz").At("x").ToVector<float>();
  for (size_t i = good.find("PK\1\2"); i < good.size(); ++i) {
    std::string damaged = good;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x21);
    dir_.Put("x.npz", damaged);
    try {
      const TensorFile file = ReadTensors(dir_ / "x.npz");
      for (const NamedTensor& one : file.tensors) EXPECT_EQ(one.tensor.ToVector<float>(), values) << i;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData) << i;
    }
  }
  // The first's bytes go on to the end of the second's.
  std::string over = Zip({Stored("x.npy", array), Stored("y.npy", array)});
  const size_t first = over.find("PK\1\2");
  const std::string size = LittleEndian(first - over.find(array), 4);
  over.replace(first + 20, 8, size + size);
  ExpectRefused("x.npz", over, "member \"y.npy\": overlaps \"x.npy\"");
  // Two members over the same bytes: the second's place is the first's.
  std::string same = Zip({Stored("x.npy", array), Stored("y.npy", array)});
  const size_t second = same.rfind("PK\1\2");
  same.replace(second + 42, 4, LittleEndian(0, 4));
  ExpectRefused("x.npz", same, "its own header is another");
  same.replace(same.find("y.npy", second), 5, "x.npy");
  ExpectRefused("x.npz", same, "is there twice");
}

// Its directory tells: each member may have its size, and all of them may not.
TEST_F(NumpyFileTest, ABombIsRefusedBeforeItIsUnpacked) {
  const uint64_t size = kFreelyUnpackedBytes / 2 + 1;
  ZipEntry entry{.name = "", .bytes = std::string(size / 1000, '\0'), .method = 8, .size = size};
  std::vector<ZipEntry> entries;
  for (const char* name : {"a.npy", "b.npy"}) entries.push_back(entry), entries.back().name = name;
  ExpectRefused("x.npz", Zip(entries), "are to become 67108866, more than 67108864");
}

TEST_F(NumpyFileTest, WritesWhatItReads) {
  const std::vector<NamedTensor> tensors = {
      {"Y", Tensor::FromValues<float>({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6}).Transpose(0, 1)},
      {"ids", Tensor::FromValues<int64_t>({4}, std::vector<int64_t>{1, -2, 3, 1LL << 40})},
      {"i", Tensor::FromValues<int32_t>({1, 1}, std::vector<int32_t>{-7})},
      {"mask", Tensor::FromValues<uint8_t>({2}, std::vector<uint8_t>{0, 1})},
      {"scalar", Tensor::Scalar(2.5, DType::kFloat64)},
      {"empty/é", Tensor::Zeros({0, 5}, DType::kFloat32)}};
  for (const char* name : {"all.npz", "all.safetensors"}) {
    WriteTensors(dir_ / name, tensors);
    const TensorFile read = ReadTensors(dir_ / name);
    ASSERT_EQ(read.tensors.size(), tensors.size()) << name;
    for (const NamedTensor& one : tensors) {
      const Tensor& tensor = read.At(one.name);
      EXPECT_EQ(tensor.dtype(), one.tensor.dtype());
      EXPECT_EQ(tensor.shape(), one.tensor.shape());
      EXPECT_EQ(tensor.To(DType::kFloat64).ToVector<double>(), one.tensor.To(DType::kFloat64).ToVector<double>());
    }
  }
  WriteTensors(dir_ / "Y.npy", std::span(tensors).subspan(0, 1));
  std::string expected = "\x93NUMPY\1\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"s;
  expected.resize(127, ' ');
  expected += "\n\0\0\x80\x3F\0\0\x80\x40\0\0\0\x40\0\0\xA0\x40\0\0\x40\x40\0\0\xC0\x40"s;
  EXPECT_EQ(ReadFile(dir_ / "Y.npy"), expected);
  // The archive has the same bytes as one made by the rules of zip.
  WriteTensors(dir_ / "Y.npz", std::span(tensors).subspan(0, 1));
  ZipEntry entry = Stored("Y.npy", expected);
  std::string archive = ReadFile(dir_ / "Y.npz"), by_hand = Zip({entry});
  EXPECT_EQ(archive.size(), by_hand.size());
  EXPECT_EQ(archive.substr(archive.find("Y.npy"), expected.size()),
            by_hand.substr(by_hand.find("Y.npy"), expected.size()));

  const auto write = [&](const char* name, const std::vector<NamedTensor>& some) {
    return [this, name, some] { WriteTensors(dir_ / name, some); };
  };
  testing::ExpectRefused(
      {{"an .npy",
        write("some.npy", tensors),
        {"an .npy holds one array, and there are 6 (Y, empty/é, i, ids, mask, scalar); name an .npz"}},
       {"a name twice", write("some.npz", {tensors[0], tensors[0]}), {"is there twice"}},
       {"bfloat16", write("some.npz", {{"x", Tensor::Zeros({1}, DType::kBFloat16)}}), {"no such dtype"}},
       {"no name", write("some.npz", {{"", tensors[0].tensor}}), {"the name is empty"}}});
  EXPECT_FALSE(std::filesystem::exists(dir_ / "some.npz"));
}

// NumPy reads what we write, and we read what it writes.
TEST_F(NumpyFileTest, NumPyAgrees) {
  const auto shell = [](const std::string& command) { return RunCommand({"-c", command}, {.program = "/bin/sh"}); };
  std::string python;
  for (const char* interpreter : {"python3", "/usr/bin/python3"}) {
    if (python.empty() && shell(interpreter + " -c 'import numpy'"s).exit_code == 0) python = interpreter;
  }
  if (python.empty()) GTEST_SKIP() << "there is no python3 with numpy";
  const auto run = [&](const std::string& program) {
    const CommandResult result =
        shell("cd '" + dir_.path() + "' && " + python + " -c '\nimport numpy as np\n" + program + "'");
    ASSERT_EQ(result.exit_code, 0) << result.errors;
  };
  run(R"(
base = np.arange(24).reshape(2, 3, 4)
arrays = {"f4": base.astype("<f4"), "F": np.asfortranarray(base.astype("<f8")), "big": base.astype(">i4"),
          "i8": base[:, ::2, :], "f2": (base / 7).astype("f2"), "b": base % 2 == 0, "none": np.zeros((0, 2)),
          "scalar": np.float64(2.5)}
np.savez("stored.npz", **arrays)
np.savez_compressed("packed.npz", **arrays)
for i in (1, 2, 3): np.lib.format.write_array(open("X%d.npy" % i, "wb"), arrays["F"], version=(i, 0))
)");
  std::vector<double> base(24);
  for (size_t i = 0; i < base.size(); ++i) base[i] = static_cast<double>(i);
  const auto values = [](const Tensor& tensor) { return tensor.To(DType::kFloat64).ToVector<double>(); };
  for (const char* name : {"stored.npz", "packed.npz"}) {
    const TensorFile file = ReadTensors(dir_ / name);
    EXPECT_EQ(file.tensors.size(), 8u);
    for (const char* array : {"f4", "F", "big"}) EXPECT_EQ(values(file.At(array)), base) << array;
    EXPECT_EQ(file.At("F").shape(), Shape({2, 3, 4}));
    EXPECT_EQ(file.At("big").dtype(), DType::kInt32);
    EXPECT_EQ(values(file.At("i8")), (std::vector<double>{0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 20, 21, 22, 23}));
    EXPECT_NEAR(values(file.At("f2"))[10], 10.0 / 7, 1e-3);
    EXPECT_EQ(values(file.At("b"))[2], 1);
    EXPECT_EQ(file.At("none").shape(), Shape({0, 2}));
    EXPECT_EQ(file.At("scalar").Item(), 2.5);
  }
  for (const char* name : {"X1", "X2", "X3"}) {
    EXPECT_EQ(values(ReadTensors(dir_ / (name + ".npy"s)).At(name)), base) << name;
  }
  std::vector<NamedTensor> again = ReadTensors(dir_ / "stored.npz").tensors;
  again.push_back({"grad.é", Tensor::Full({3}, -1.25, DType::kFloat32)});
  WriteTensors(dir_ / "again.npz", again);
  WriteTensors(dir_ / "f4.npy", std::vector<NamedTensor>{{"f4", ReadTensors(dir_ / "packed.npz").At("f4")}});
  run(R"(
before, again = np.load("stored.npz"), np.load("again.npz")
assert set(again.files) == set(before.files) | {"grad.é"}, again.files
for name in before.files:
    assert again[name].shape == before[name].shape, name
    assert np.array_equal(again[name], before[name]), name
    assert name == "f2" or again[name].dtype == before[name].dtype.newbyteorder("="), name
assert again["grad.é"].tolist() == [-1.25] * 3
assert np.array_equal(np.load("f4.npy"), before["f4"])
import zipfile
assert zipfile.ZipFile("again.npz").testzip() is None
)");
}

}  // namespace numpy_file_test
}  // namespace crosstalk
