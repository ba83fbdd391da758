#include "crosstalk/runtime/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace safetensors_test {

using testing::MessageOf;

std::string Repeat(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

// The eight bytes of the header's length.
std::string Length(uint64_t length) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes;
}

// A file of this header and `data_bytes` zero bytes.
std::string FileOf(const std::string& header, size_t data_bytes = 0) {
  return Length(header.size()) + header + std::string(data_bytes, '\0');
}

// {"t": {"dtype": DTYPE, "shape": SHAPE, "data_offsets": OFFSETS}}
std::string OneTensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{\"t\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}";
}

std::string TwoTensors(const std::string& offsets_a, const std::string& offsets_b) {
  return "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" + offsets_a +
         "},\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" + offsets_b + "}}";
}

// A new file each time: some file systems flush a file that is emptied and written again.
void Put(const std::string& path, std::string_view bytes) {
  RemoveAll(path);
  FileWriter(path).Write(bytes);
}

struct Malformed {
  const char* name;
  std::string bytes;
  std::vector<std::string> expected;  // words of the message
};

std::vector<Malformed> MalformedFiles() {
  const std::string good = OneTensor("\"F32\"", "[2]", "[0,8]");
  const auto shape = [](const std::string& text, size_t bytes = 8) {
    return FileOf(OneTensor("\"F32\"", text, "[0,8]"), bytes);
  };
  const auto offsets = [](const std::string& text, size_t bytes = 8) {
    return FileOf(OneTensor("\"F32\"", "[2]", text), bytes);
  };
  const auto dtype = [](const std::string& text) { return FileOf(OneTensor(text, "[2]", "[0,8]"), 8); };
  const auto named = [](const std::string& name) {
    return FileOf("{\"" + name + "\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}");
  };
  const auto metadata = [](const std::string& value) { return FileOf("{\"__metadata__\":" + value + "}"); };
  std::string nested_many = "{\"__metadata__\":{";
  for (int i = 0; i < 100'001; ++i) nested_many += "\"" + std::to_string(i) + "\":\"\",";
  nested_many.back() = '}';
  std::string many = "{";
  for (int i = 0; i < 100'001; ++i) {
    many += "\"" + std::to_string(i) + "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},";
  }
  many.back() = '}';
  return {
      // The length.
      {"empty file", "", {"has 0 bytes"}},
      {"seven bytes", std::string(7, '\0'), {"has 7 bytes"}},
      {"no header", Length(0), {"does not begin with '{'"}},
      {"length beyond the file", Length(3) + "{}", {"header length 3", "2 bytes that follow"}},
      {"length far beyond the file", Length(99'999'999) + "{}", {"header length 99999999"}},
      {"length over the limit", Length(100'000'001) + "{}", {"100000001", "100000000"}},
      {"length all ones", Length(~uint64_t{0}) + "{}", {"18446744073709551615"}},
      {"length that wraps with 8", Length(~uint64_t{0} - 7) + "{}", {"18446744073709551608"}},
      {"length cuts the header", Length(good.size() - 1) + good + std::string(8, '\0'), {"header: byte"}},
      {"length takes in tensor bytes", Length(good.size() + 4) + good + std::string(8, '\0'), {"NUL byte"}},
      {"length in big-endian order", std::string(7, '\0') + "\x02{}", {"more than"}},
      // The JSON.
      {"begins with a space", FileOf(" {}"), {"begin with '{'"}},
      {"begins with a byte-order mark", FileOf("\xef\xbb\xbf{}"), {"begin with '{'"}},
      {"an array", FileOf("[]"), {"begin with '{'"}},
      {"a string", FileOf("\"{}\""), {"begin with '{'"}},
      {"only a brace", FileOf("{"), {"header: byte 1"}},
      {"two values", FileOf("{}{}"), {"header: byte 3"}},
      {"padded with zeros", FileOf(std::string("{}\0\0", 4)), {"byte 2", "NUL"}},
      {"padded with line ends", FileOf("{}\n\n"), {"padded"}},
      {"padded with tabs", FileOf("{} \t"), {"padded"}},
      {"trailing comma", FileOf("{\"__metadata__\":{},}"), {"header: byte 20"}},
      {"comment", FileOf("{/* no */}"), {"header: byte"}},
      {"single quotes", FileOf("{'a':1}"), {"header: byte"}},
      {"not UTF-8 in a name", named("a\xff"), {"header: byte"}},
      {"overlong UTF-8 in a name", named("\xc0\xaf"), {"header: byte"}},
      {"lone surrogate in a name", named("\\ud800"), {"header: byte"}},
      {"raw line end in a name", named("a\nb"), {"header: byte"}},
      {"nested deeply", FileOf("{\"a\":" + Repeat("[", 100'000)), {"must be described by an object, not an array"}},
      {"objects nested deeply", FileOf(Repeat("{\"a\":", 100'000)), {"unknown field 'a'"}},
      // Names.
      {"a name twice",
       FileOf("{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
              "\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
              8),
       {"tensor 't'", "there twice"}},
      {"a name twice, once escaped",
       FileOf("{\"t\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
              "\"\\u0074\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}"),
       {"tensor 't'", "there twice"}},
      {"name of 513 bytes", named(std::string(513, 'n')), {"513 bytes", "512"}},
      {"control character in a name", named("a\\u0001"), {"tensor 'a\\x01'", "control character at byte 1"}},
      {"NUL in a name", named("a\\u0000b"), {"control character at byte 1"}},
      {"delete in a name", named("ab\\u007f"), {"control character at byte 2"}},
      {"C1 control in a name", named("\\u0085"), {"control character at byte 0"}},
      {"100,001 tensors", FileOf(many), {"more than 100000 tensors"}},
      // Metadata.
      {"metadata null", metadata("null"), {"__metadata__ must be an object, not null"}},
      {"metadata a string", metadata("\"x\""), {"__metadata__ must be an object, not a string"}},
      {"metadata an array", metadata("[]"), {"__metadata__ must be an object, not an array"}},
      {"metadata holds a number", metadata("{\"a\":1}"), {"__metadata__ maps 'a' to a number"}},
      {"metadata holds null", metadata("{\"a\":null}"), {"__metadata__ maps 'a' to null"}},
      {"metadata holds an object", metadata("{\"a\":{}}"), {"__metadata__ maps 'a' to an object"}},
      {"metadata holds an array", metadata("{\"a\":[]}"), {"__metadata__ maps 'a' to an array"}},
      {"metadata key twice", metadata("{\"a\":\"1\",\"a\":\"1\"}"), {"__metadata__ has the key 'a' twice"}},
      {"metadata twice", FileOf("{\"__metadata__\":{},\"__metadata__\":{}}"), {"'__metadata__'", "there twice"}},
      {"100,001 strings of metadata", FileOf(nested_many), {"__metadata__ has more than 100000"}},
      // Tensor descriptions.
      {"described by null", FileOf("{\"t\":null}"), {"tensor 't'", "by an object, not null"}},
      {"described by a number", FileOf("{\"t\":1}"), {"tensor 't'", "by an object, not a number"}},
      {"described by a string", FileOf("{\"t\":\"F32\"}"), {"tensor 't'", "by an object, not a string"}},
      {"described by true", FileOf("{\"t\":true}"), {"tensor 't'", "by an object, not true or false"}},
      {"described by nothing", FileOf("{\"t\":{}}"), {"tensor 't'", "has no dtype"}},
      {"no shape", FileOf("{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,0]}}"), {"tensor 't'", "has no shape"}},
      {"no data_offsets", FileOf("{\"t\":{\"dtype\":\"F32\",\"shape\":[0]}}"), {"'t'", "has no data_offsets"}},
      {"unknown field",
       FileOf("{\"t\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0],\"strides\":[1]}}"),
       {"tensor 't'", "unknown field 'strides'"}},
      {"field in capitals", FileOf("{\"t\":{\"Dtype\":\"F32\"}}"), {"unknown field 'Dtype'"}},
      {"dtype twice",
       FileOf("{\"t\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}"),
       {"tensor 't'", "field 'dtype' twice"}},
      {"shape twice",
       FileOf("{\"t\":{\"dtype\":\"F32\",\"shape\":[0],\"shape\":[0],\"data_offsets\":[0,0]}}"),
       {"tensor 't'", "field 'shape' twice"}},
      {"data_offsets twice",
       FileOf("{\"t\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0],\"data_offsets\":[0,0]}}"),
       {"tensor 't'", "field 'data_offsets' twice"}},
      // dtype.
      {"unknown dtype", dtype("\"F31\""), {"tensor 't'", "unknown dtype 'F31'"}},
      {"dtype in small letters", dtype("\"f32\""), {"unknown dtype 'f32'"}},
      {"dtype empty", dtype("\"\""), {"unknown dtype ''"}},
      {"dtype a number", dtype("32"), {"dtype must be a string, not a number"}},
      {"dtype null", dtype("null"), {"dtype must be a string, not null"}},
      {"dtype an array", dtype("[\"F32\"]"), {"dtype must be a string, not an array"}},
      // shape.
      {"shape null", shape("null"), {"shape must be an array, not null"}},
      {"shape a number", shape("2"), {"shape must be an array, not a number"}},
      {"shape an object", shape("{}"), {"shape must be an array, not an object"}},
      {"shape negative", shape("[-2]"), {"tensor 't'", "not a number with a minus sign"}},
      {"shape minus zero", shape("[-0]"), {"not a number with a minus sign"}},
      {"shape with a fraction", shape("[2.0]"), {"not a number with a fraction"}},
      {"shape with an exponent", shape("[2e0]"), {"not a number with a fraction or exponent"}},
      {"shape of strings", shape("[\"2\"]"), {"plain unsigned integers, not a string"}},
      {"shape nested", shape("[[2]]"), {"plain unsigned integers, not an array"}},
      {"shape holds null", shape("[null]"), {"plain unsigned integers, not null"}},
      {"shape holds true", shape("[true]"), {"plain unsigned integers, not true or false"}},
      {"shape with a leading zero", shape("[02]"), {"header: byte"}},
      {"shape 2^64", shape("[18446744073709551616]"), {"does not fit 64 bits"}},
      {"shape 2^64-1", shape("[18446744073709551615]"), {"18446744073709551615 in its shape is too large"}},
      {"shape of rank 9", shape("[1,1,1,1,1,1,1,1,2]"), {"tensor 't'", "more than 8 dimensions"}},
      {"product wraps to 8 bytes", shape("[4294967296,1073741824,4,2]"), {"tensor 't'", "overflows"}},
      {"product wraps to 0 bytes", FileOf(OneTensor("\"F32\"", "[1073741824,1073741824,16]", "[0,0]")), {"overflows"}},
      {"huge beside a zero", FileOf(OneTensor("\"F32\"", "[1073741824,1073741824,16,0]", "[0,0]")), {"overflows"}},
      {"shape too small for the bytes", shape("[1]"), {"takes 4 bytes", "hold 8"}},
      {"shape too large for the bytes", shape("[3]"), {"takes 12 bytes", "hold 8"}},
      {"scalar with 8 bytes", shape("[]"), {"takes 4 bytes", "hold 8"}},
      {"dtype too wide for the bytes", FileOf(OneTensor("\"F64\"", "[2]", "[0,8]"), 8), {"F64[2] takes 16 bytes"}},
      // data_offsets.
      {"offsets null", offsets("null"), {"data_offsets must be an array, not null"}},
      {"offsets an object", offsets("{\"a\":0}"), {"data_offsets must be an array, not an object"}},
      {"offsets empty", offsets("[]"), {"data_offsets has fewer than two"}},
      {"one offset", offsets("[8]"), {"data_offsets has fewer than two"}},
      {"three offsets", offsets("[0,8,8]"), {"data_offsets has more than two"}},
      {"offset negative", offsets("[-1,8]"), {"not a number with a minus sign"}},
      {"offset with a fraction", offsets("[0.0,8]"), {"not a number with a fraction"}},
      {"offset a string", offsets("[\"0\",8]"), {"plain unsigned integers, not a string"}},
      {"offset 2^64", offsets("[0,18446744073709551616]"), {"does not fit 64 bits"}},
      {"offsets reversed", offsets("[8,0]"), {"tensor 't'", "end before they begin"}},
      {"offsets beyond the file", offsets("[0,8]", 7), {"tensor 't'", "reach beyond the 7 bytes"}},
      {"offsets far beyond the file", offsets("[18446744073709551607,18446744073709551615]"), {"reach beyond the 8"}},
      // The tiling.
      {"hole before the first", FileOf(TwoTensors("[4,12]", "[12,20]"), 20), {"tensor 'a'", "begins at 4", "hole"}},
      {"hole between", FileOf(TwoTensors("[0,8]", "[9,17]"), 17), {"tensor 'b'", "begins at 9", "hole"}},
      {"overlap", FileOf(TwoTensors("[0,8]", "[4,12]"), 12), {"tensor 'b'", "begins at 4, inside"}},
      {"the same bytes twice", FileOf(TwoTensors("[0,8]", "[0,8]"), 8), {"tensor 'b'", "begins at 0, inside"}},
      {"bytes after the last", FileOf(TwoTensors("[0,8]", "[8,16]"), 17), {"ends at byte 16 of 17"}},
      {"bytes without a tensor", FileOf("{}", 1), {"ends at byte 0 of 1"}},
      {"empty tensor inside another",
       FileOf("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
              "\"b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]}}",
              8),
       {"tensor 'b'", "begins at 4, inside"}},
  };
}

TEST(SafetensorsTest, MalformedFilesAreRefusedWithTheReason) {
  const TempDir dir;
  const std::string path = dir / "bad.safetensors";
  const std::vector<Malformed> files = MalformedFiles();
  ASSERT_GE(files.size(), 60u);
  for (const Malformed& file : files) {
    Put(path, file.bytes);
    const std::string from_header = MessageOf([&] { ReadSafetensorsHeader(path); }, ErrorKind::kData);
    const std::string message = MessageOf([&] { ReadSafetensors(path); }, ErrorKind::kData);
    EXPECT_EQ(message, from_header) << file.name;
    EXPECT_EQ(message.rfind(path + ": ", 0), 0u) << file.name << " gave " << message;
    EXPECT_LT(message.size(), path.size() + 400) << file.name << " gave " << message;
    for (const std::string& words : file.expected) {
      EXPECT_NE(message.find(words), std::string::npos) << file.name << " gave " << message;
    }
  }
}

TEST(SafetensorsTest, UnusualButLegalFilesAreRead) {
  const TempDir dir;
  const std::string path = dir / "good.safetensors";
  const std::string longest(512, 'n');
  const std::string files[] = {
      FileOf("{}"),
      FileOf("{}      "),
      FileOf("{\"__metadata__\":{}}"),
      FileOf("{ \"__metadata__\" : { \"\" : \"\\n\" } }"),
      FileOf(OneTensor("\"F32\"", "[]", "[0,4]"), 4),
      FileOf(OneTensor("\"F32\"", "[2,0,3]", "[0,0]")),
      FileOf(OneTensor("\"F32\"", "[1,1,1,1,1,1,1,2]", "[0,8]"), 8),
      FileOf(TwoTensors("[8,16]", "[0,8]"), 16),
      FileOf("{\"" + longest + "\":{\"data_offsets\":[0,1],\"shape\":[1],\"dtype\":\"BOOL\"}}", 1),
      FileOf("{\"\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}"),
      FileOf("{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]},"
             "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
             8),
      FileOf("{\"\\u00e9/\xc3\xa9 \xf0\x9f\x98\x80\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8),
  };
  for (const std::string& file : files) {
    Put(path, file);
    EXPECT_NO_THROW(ReadSafetensors(path)) << file;
  }
}

// A small file with one tensor of every dtype that there is here, two strings, and odd shapes.
std::string SmallFile(const std::string& path) {
  const std::vector<NamedTensor> tensors = {
      {"layer.weight", Tensor::FromValues<float>({2, 3}, {1, -2.5f, 3, 4, 5, 6e-30f})},
      {"bias", Tensor::FromValues<double>({3}, {0.1, -1e300, 5e-324})},
      {"mask", Tensor::FromValues<uint8_t>({3, 1}, {1, 0, 1})},
      {"ids", Tensor::FromValues<int32_t>({2}, {-1, 2147483647})},
      {"count", Tensor::FromValues<int64_t>({}, {int64_t{-1} << 62})},
      {"nothing", Tensor::Zeros({4, 0}, DType::kFloat32)}};
  WriteSafetensors(path, tensors, {{"format", "pt"}, {"note", "a\"b\\c\n\xc3\xa9"}});
  return ReadFile(path);
}

TEST(SafetensorsTest, WhatIsWrittenIsRead) {
  const TempDir dir;
  SmallFile(dir / "file");
  const TensorFile file = ReadSafetensors(dir / "file");
  std::vector<std::string> names;
  for (const NamedTensor& tensor : file.tensors) names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"bias", "count", "ids", "layer.weight", "mask", "nothing"}));
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"note", "a\"b\\c\n\xc3\xa9"}}));
  EXPECT_EQ(file.At("layer.weight").shape(), (Shape{2, 3}));
  EXPECT_EQ(file.At("layer.weight").ToVector<float>(), (std::vector<float>{1, -2.5f, 3, 4, 5, 6e-30f}));
  EXPECT_EQ(file.At("bias").ToVector<double>(), (std::vector<double>{0.1, -1e300, 5e-324}));
  EXPECT_EQ(file.At("mask").dtype(), DType::kBool);
  EXPECT_EQ(file.At("mask").ToVector<uint8_t>(), (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(file.At("ids").ToVector<int32_t>(), (std::vector<int32_t>{-1, 2147483647}));
  EXPECT_EQ(file.At("count").shape(), Shape());
  EXPECT_EQ(file.At("count").ToVector<int64_t>()[0], int64_t{-1} << 62);
  EXPECT_EQ(file.At("nothing").shape(), (Shape{4, 0}));
  EXPECT_EQ(file.Find("layer"), nullptr);
  EXPECT_EQ(MessageOf([&] { file.At("layer"); }, ErrorKind::kData), dir / "file: has no tensor 'layer'");
}

TEST(SafetensorsTest, OnlyTheNamedTensorsAreRead) {
  const TempDir dir;
  SmallFile(dir / "file");
  const std::vector<std::string> names = {"ids", "bias", "ids"};
  const TensorFile file = ReadSafetensors(dir / "file", names);
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.At("ids").ToVector<int32_t>(), (std::vector<int32_t>{-1, 2147483647}));
  const std::vector<std::string> absent = {"nope"};
  EXPECT_EQ(MessageOf([&] { ReadSafetensors(dir / "file", absent); }, ErrorKind::kData),
            dir / "file: has no tensor 'nope'");
}

TEST(SafetensorsTest, TheBytesAreTheseOnEveryMachine) {
  const TempDir dir;
  const std::vector<NamedTensor> tensors = {{"b", Tensor::FromValues<uint8_t>({1}, {1})},
                                            {"z", Tensor::FromValues<float>({1}, {1.0f})},
                                            {"a", Tensor::FromValues<float>({2}, {2.0f, -0.0f})}};
  WriteSafetensors(dir / "file", tensors, {{"k", "v"}});
  std::string header = R"({"__metadata__": {"k": "v"}, "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, )"
                       R"("z": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}, )"
                       R"("b": {"dtype": "BOOL", "shape": [1], "data_offsets": [12, 13]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  const std::string data("\x00\x00\x00\x40\x00\x00\x00\x80\x00\x00\x80\x3f\x01", 13);
  EXPECT_EQ(ReadFile(dir / "file"), Length(header.size()) + header + data);
}

TEST(SafetensorsTest, TheOrderGivenDoesNotMatterAndTensorsAreAligned) {
  const TempDir dir;
  const std::vector<NamedTensor> tensors = {{"m", Tensor::Zeros({3}, DType::kBool)},
                                            {"a", Tensor::Zeros({5}, DType::kFloat32)},
                                            {"d", Tensor::Zeros({1}, DType::kFloat64)},
                                            {"c", Tensor::Zeros({2}, DType::kInt64)}};
  const std::vector<NamedTensor> reversed(tensors.rbegin(), tensors.rend());
  WriteSafetensors(dir / "one", tensors);
  WriteSafetensors(dir / "two", reversed);
  EXPECT_EQ(ReadFile(dir / "one"), ReadFile(dir / "two"));
  const TensorFileHeader header = ReadSafetensorsHeader(dir / "one");
  EXPECT_EQ(header.data_begin % 8, 0u);
  for (const TensorFileEntry& entry : header.entries) {
    const uint64_t alignment = entry.dtype == "BOOL" ? 1 : entry.dtype == "F32" ? 4 : 8;
    EXPECT_EQ(entry.begin % alignment, 0u) << entry.name;
  }
}

TEST(SafetensorsTest, StridedTensorsAreWrittenInRowMajorOrder) {
  const TempDir dir;
  const Tensor plain = Tensor::FromValues<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const std::vector<NamedTensor> tensors = {{"t", plain.Transpose(0, 1)}};
  WriteSafetensors(dir / "file", tensors);
  const TensorFile file = ReadSafetensors(dir / "file");
  EXPECT_EQ(file.At("t").shape(), (Shape{3, 2}));
  EXPECT_EQ(file.At("t").ToVector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST(SafetensorsTest, HeaderTellsWhatTheFileHolds) {
  const TempDir dir;
  const std::string bytes = SmallFile(dir / "file");
  const TensorFileHeader header = ReadSafetensorsHeader(dir / "file");
  EXPECT_EQ(header.file_bytes, bytes.size());
  ASSERT_EQ(header.entries.size(), 6u);
  uint64_t at = 0;
  for (const TensorFileEntry& entry : header.entries) {
    EXPECT_EQ(entry.begin, at);
    at = entry.end;
  }
  EXPECT_EQ(header.data_begin + at, bytes.size());
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(SafetensorsTest, WritingRefusesWhatReadingWould) {
  const TempDir dir;
  const Tensor t = Tensor::Zeros({1}, DType::kFloat32);
  const auto message = [&](const std::vector<NamedTensor>& tensors, const std::map<std::string, std::string>& strings) {
    return MessageOf([&] { WriteSafetensors(dir / "file", tensors, strings); }, ErrorKind::kUsage);
  };
  EXPECT_EQ(message({{"a", t}, {"a", t}}, {}), dir / "file: tensor 'a': is there twice");
  EXPECT_NE(message({{std::string(513, 'a'), t}}, {}).find("513 bytes"), std::string::npos);
  EXPECT_NE(message({{"a\n", t}}, {}).find("tensor 'a\\n': the name has a control character at byte 1"),
            std::string::npos);
  EXPECT_NE(message({{"a\xff", t}}, {}).find("not UTF-8"), std::string::npos);
  EXPECT_NE(message({{"__metadata__", t}}, {}).find("cannot be called __metadata__"), std::string::npos);
  EXPECT_NE(message({{"a", Tensor()}}, {}).find("is undefined"), std::string::npos);
  EXPECT_NE(message({}, {{"k", "\xff"}}).find("metadata 'k' is not UTF-8"), std::string::npos);
  EXPECT_TRUE(ListDirectory(dir.path()).empty());
  // A byte of a BOOL tensor that is neither 0 nor 1.
  EXPECT_NE(message({{"m", Tensor::FromValues<uint8_t>({3}, {0, 1, 2})}}, {}).find("BOOL element 2 is 2"),
            std::string::npos);
  EXPECT_TRUE(ListDirectory(dir.path()).empty());
}

TEST(SafetensorsTest, HalvesBecomeFloatsExactly) {
  const TempDir dir;
  // Bits of F16, then their values by the definition: (-1)^s · 2^(e-15) · 1.f, subnormals 2^-14 · 0.f.
  const std::vector<uint16_t> bits = {0x0000, 0x8000, 0x3c00, 0xc000, 0x3555, 0x7bff,
                                      0x0400, 0x0001, 0x83ff, 0x7c00, 0xfc00, 0x7e00};
  const std::vector<float> values = {
      0.0f, -0.0f, 1.0f, -2.0f, 0x1.554p-2f, 65504.0f, 0x1p-14f, 0x1p-24f, -1023 * 0x1p-24f, INFINITY, -INFINITY, NAN};
  std::string file = FileOf(OneTensor("\"F16\"", "[12]", "[0,24]"));
  file.append(reinterpret_cast<const char*>(bits.data()), 24);
  Put(dir / "file", file);
  const Tensor tensor = ReadSafetensors(dir / "file").At("t");
  ASSERT_EQ(tensor.dtype(), DType::kFloat32);
  const std::vector<float> read = tensor.ToVector<float>();
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    EXPECT_EQ(read[i], values[i]) << i;
    EXPECT_EQ(std::signbit(read[i]), std::signbit(values[i])) << i;
  }
  EXPECT_TRUE(std::isnan(read.back()));
}

TEST(SafetensorsTest, BFloat16BecomesFloatExactly) {
  const TempDir dir;
  const std::vector<uint16_t> bits = {0x3f80, 0xc040, 0x0001, 0x7f80};
  std::string file = FileOf(OneTensor("\"BF16\"", "[2,2]", "[0,8]"));
  file.append(reinterpret_cast<const char*>(bits.data()), 8);
  Put(dir / "file", file);
  EXPECT_EQ(ReadSafetensors(dir / "file").At("t").ToVector<float>(),
            (std::vector<float>{1.0f, -3.0f, 0x1p-133f, INFINITY}));
}

TEST(SafetensorsTest, DtypesThatCannotBeLoadedAreNamed) {
  const TempDir dir;
  const struct {
    const char* dtype;
    int bytes;
  } kCases[] = {{"U8", 1}, {"I8", 1}, {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"I16", 2}, {"U16", 2}, {"U32", 4}, {"U64", 8}};
  for (const auto& test : kCases) {
    const std::string offsets = "[0," + std::to_string(3 * test.bytes) + "]";
    FileWriter(dir / "file")
        .Write(FileOf(OneTensor("\"" + std::string(test.dtype) + "\"", "[3]", offsets), 3 * test.bytes));
    EXPECT_NO_THROW(ReadSafetensorsHeader(dir / "file")) << test.dtype;
    testing::ExpectError([&] { ReadSafetensors(dir / "file"); }, ErrorKind::kData,
                         {"tensor 't': dtype " + std::string(test.dtype) + " cannot be loaded"});
  }
}

TEST(SafetensorsTest, ABoolThatIsNeitherIsRefused) {
  const TempDir dir;
  Put(dir / "file", FileOf(OneTensor("\"BOOL\"", "[3]", "[0,3]")) + std::string("\0\1\2", 3));
  EXPECT_EQ(MessageOf([&] { ReadSafetensors(dir / "file"); }, ErrorKind::kData),
            dir / "file: tensor 't': BOOL element 2 is 2, not 0 or 1");
}

TEST(SafetensorsTest, EveryTruncationIsRefused) {
  const TempDir dir;
  const std::string bytes = SmallFile(dir / "file");
  for (size_t size = 0; size < bytes.size(); ++size) {
    Put(dir / "cut", std::string_view(bytes).substr(0, size));
    EXPECT_NE(MessageOf([&] { ReadSafetensors(dir / "cut"); }, ErrorKind::kData), "") << size;
  }
  Put(dir / "longer", bytes + '\0');
  MessageOf([&] { ReadSafetensors(dir / "longer"); }, ErrorKind::kData);
}

TEST(SafetensorsTest, NoSingleFlippedBitOfTheHeaderCrashes) {
  const TempDir dir;
  const std::string bytes = SmallFile(dir / "file");
  const TensorFileHeader header = ReadSafetensorsHeader(dir / "file");
  size_t refused = 0;
  for (size_t bit = 0; bit < 8 * header.data_begin; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    Put(dir / "flipped", flipped);
    try {
      // What is still a legal file holds as many bytes of tensors as before.
      const TensorFile file = ReadSafetensors(dir / "flipped");
      EXPECT_LE(file.tensors.size(), 6u) << "bit " << bit;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData) << "bit " << bit << ": " << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 8 * header.data_begin / 2);  // most bits are structure; some are letters of names
}

TEST(SafetensorsTest, ASizeIsCheckedAgainstTheFileBeforeAnythingIsAllocated) {
  const TempDir dir;
  Put(dir / "file", FileOf(OneTensor("\"F32\"", "[1099511627776]", "[0,4398046511104]"), 8));
  ResetPeakMemory();
  const int64_t before = GetMemoryStats().peak_bytes;
  testing::ExpectError([&] { ReadSafetensors(dir / "file"); }, ErrorKind::kData, {"reach beyond the 8 bytes"});
  EXPECT_EQ(GetMemoryStats().peak_bytes, before);
}

TEST(SafetensorsTest, SourcesAreReadOneByOneInTheOrderOfTheFile) {
  std::vector<NamedTensor> tensors = {{"b", Tensor::Zeros({3, 5}, DType::kFloat32)},
                                      {"a", Tensor::Full({7}, 2, DType::kFloat32)},
                                      {"z", Tensor::Zeros({2}, DType::kInt64)},
                                      {"flag", Tensor::Zeros({3}, DType::kBool)}};
  const TempDir dir;
  WriteSafetensors(dir / "tensors", tensors);
  std::string order;
  std::vector<TensorSource> sources;
  for (const NamedTensor& one : tensors) {
    sources.push_back({one.name, one.tensor.dtype(), one.tensor.shape(), [&one, &order] {
                         order += one.name + " ";
                         return one.tensor;
                       }});
  }
  AtomicFile file(dir / "sources");
  WriteSafetensors(file.writer(), sources);
  file.Commit();
  EXPECT_EQ(ReadFile(dir / "sources"), ReadFile(dir / "tensors"));
  SortAsInFile(tensors);
  std::string sorted;
  for (const NamedTensor& one : tensors) sorted += one.name + " ";
  EXPECT_EQ(order, sorted);
  EXPECT_EQ(order, "z a b flag ");
}

TEST(SafetensorsTest, MissingFilesAndDirectoriesAreNamed) {
  const TempDir dir;
  EXPECT_EQ(MessageOf([&] { ReadSafetensors(dir / "none"); }, ErrorKind::kData),
            dir / "none: cannot open: No such file or directory");
  EXPECT_EQ(MessageOf([&] { ReadSafetensors(dir.path()); }, ErrorKind::kData), dir.path() + ": is a directory");
}

}  // namespace safetensors_test
}  // namespace crosstalk
