#include "crosstalk/runtime/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace safetensors_test {

using testing::MessageOf;

class SafetensorsTest : public ::testing::Test {
 protected:
  const TempDir dir;
};

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

std::string TwoTensors(const std::string& offsets_a, const std::string& offsets_b, const std::string& a = "a",
                       const std::string& b = "b", const std::string& shape_b = "[2]") {
  const auto one = [](const std::string& name, const std::string& shape, const std::string& offsets) {
    return "\"" + name + "\":{\"dtype\":\"F32\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
  };
  return "{" + one(a, "[2]", offsets_a) + "," + one(b, shape_b, offsets_b) + "}";
}

using Malformed = testing::Refusal<std::string>;

std::vector<Malformed> MalformedFiles() {
  const std::string good = OneTensor("\"F32\"", "[2]", "[0,8]");
  const auto shape = [](const std::string& text, size_t bytes = 8) {
    return FileOf(OneTensor("\"F32\"", text, "[0,8]"), bytes);
  };
  const auto offsets = [](const std::string& text, size_t bytes = 8) {
    return FileOf(OneTensor("\"F32\"", "[2]", text), bytes);
  };
  const auto dtype = [](const std::string& text) { return FileOf(OneTensor(text, "[2]", "[0,8]"), 8); };
  const auto described = [](const std::string& by) { return FileOf("{\"t\":" + by + "}"); };
  const auto metadata = [](const std::string& value) { return FileOf("{\"__metadata__\":" + value + "}"); };
  const auto named = [](const std::string& name) {
    return FileOf("{\"" + name + "\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}");
  };
  // {"t": {…}} of an empty tensor, and these fields.
  const auto with = [&](const std::string& fields) {
    return described("{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]," + fields + "}");
  };
  // 100,001 members of an object.
  const auto many = [](const std::string& member) {
    std::string text = "{";
    for (int i = 0; i < 100'001; ++i) text += "\"" + std::to_string(i) + "\":" + member + ",";
    text.back() = '}';
    return text;
  };
  std::vector<Malformed> files = {
      // The length.
      {"empty file", "", {"has 0 bytes"}},
      {"seven bytes", std::string(7, '\0'), {"has 7 bytes"}},
      {"no header", Length(0), {"does not begin with '{'"}},
      {"length beyond the file", Length(3) + "{}", {"header length 3", "2 bytes that follow"}},
      {"length over the limit", Length(100'000'001) + "{}", {"100000001", "100000000"}},
      {"length all ones", Length(~uint64_t{0}) + "{}", {"18446744073709551615"}},
      {"length that wraps with 8", Length(~uint64_t{0} - 7) + "{}", {"18446744073709551608"}},
      {"length cuts the header", Length(good.size() - 1) + good + std::string(8, '\0'), {"header: byte"}},
      {"length takes in tensor bytes", Length(good.size() + 4) + good + std::string(8, '\0'), {"NUL byte"}},
      {"length in big-endian order", std::string(7, '\0') + "\x02{}", {"more than"}},
      // The JSON, of which json_test.cc has more.
      {"begins with a space", FileOf(" {}"), {"begin with '{'"}},
      {"an array", FileOf("[]"), {"begin with '{'"}},
      {"two values", FileOf("{}{}"), {"header: byte 3"}},
      {"padded with zeros", FileOf(std::string("{}\0\0", 4)), {"byte 2", "NUL"}},
      {"padded with line ends", FileOf("{}\n\n"), {"padded"}},
      {"padded with tabs", FileOf("{} \t"), {"padded"}},
      {"trailing comma", FileOf("{\"__metadata__\":{},}"), {"header: byte 20"}},
      {"not UTF-8 in a name", named("a\xff"), {"header: byte"}},
      {"nested deeply", described(Repeat("[", 100'000)), {"must be described by an object, not an array"}},
      {"objects nested deeply", FileOf(Repeat("{\"a\":", 100'000)), {"unknown field 'a'"}},
      // Names.
      {"a name twice", FileOf(TwoTensors("[0,8]", "[0,8]", "a", "a"), 8), {"tensor 'a'", "there twice"}},
      {"once escaped", FileOf(TwoTensors("[0,8]", "[0,8]", "t", "\\u0074"), 8), {"tensor 't'", "there twice"}},
      {"name of 513 bytes", named(std::string(513, 'n')), {"513 bytes", "512"}},
      {"control character", named("a\\u0001"), {"tensor 'a\\x01'", "control character at byte 1"}},
      {"NUL in a name", named("a\\u0000b"), {"control character at byte 1"}},
      {"delete in a name", named("ab\\u007f"), {"control character at byte 2"}},
      {"C1 control in a name", named("\\u0085"), {"control character at byte 0"}},
      {"100,001 tensors",
       FileOf(many("{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}")),
       {"more than 100000"}},
      // Metadata.
      {"metadata key twice", metadata("{\"a\":\"1\",\"a\":\"1\"}"), {"__metadata__ has the key 'a' twice"}},
      {"metadata twice", FileOf("{\"__metadata__\":{},\"__metadata__\":{}}"), {"'__metadata__'", "there twice"}},
      {"100,001 strings of metadata", metadata(many("\"\"")), {"__metadata__ has more than 100000"}},
      // Tensor descriptions.
      {"described by nothing", described("{}"), {"tensor 't'", "has no dtype"}},
      {"no shape", described("{\"dtype\":\"F32\",\"data_offsets\":[0,0]}"), {"tensor 't'", "has no shape"}},
      {"no data_offsets", described("{\"dtype\":\"F32\",\"shape\":[0]}"), {"'t'", "has no data_offsets"}},
      {"unknown field", with("\"strides\":[1]"), {"tensor 't'", "unknown field 'strides'"}},
      {"field in capitals", with("\"Dtype\":\"F32\""), {"unknown field 'Dtype'"}},
      {"dtype twice", with("\"dtype\":\"F32\""), {"tensor 't'", "field 'dtype' twice"}},
      {"shape twice", with("\"shape\":[0]"), {"tensor 't'", "field 'shape' twice"}},
      {"data_offsets twice", with("\"data_offsets\":[0,0]"), {"tensor 't'", "field 'data_offsets' twice"}},
      {"unknown dtype", dtype("\"F31\""), {"tensor 't'", "unknown dtype 'F31'"}},
      {"dtype in small letters", dtype("\"f32\""), {"unknown dtype 'f32'"}},
      {"dtype empty", dtype("\"\""), {"unknown dtype ''"}},
      // Sizes.
      {"shape with a leading zero", shape("[02]"), {"header: byte"}},
      {"shape 2^64-1", shape("[18446744073709551615]"), {"18446744073709551615 in its shape is too large"}},
      {"shape of rank 9", shape("[1,1,1,1,1,1,1,1,2]"), {"tensor 't'", "more than 8 dimensions"}},
      {"product wraps to 8 bytes", shape("[4294967296,1073741824,4,2]"), {"tensor 't'", "overflows"}},
      {"product wraps to 0 bytes", FileOf(OneTensor("\"F32\"", "[1073741824,1073741824,16]", "[0,0]")), {"overflows"}},
      {"huge beside a zero", FileOf(OneTensor("\"F32\"", "[1073741824,1073741824,16,0]", "[0,0]")), {"overflows"}},
      {"shape too small for the bytes", shape("[1]"), {"takes 4 bytes", "hold 8"}},
      {"shape too large for the bytes", shape("[3]"), {"takes 12 bytes", "hold 8"}},
      {"scalar with 8 bytes", shape("[]"), {"takes 4 bytes", "hold 8"}},
      {"dtype too wide for the bytes", dtype("\"F64\""), {"F64[2] takes 16 bytes"}},
      {"offsets empty", offsets("[]"), {"data_offsets has fewer than two"}},
      {"one offset", offsets("[8]"), {"data_offsets has fewer than two"}},
      {"three offsets", offsets("[0,8,8]"), {"data_offsets has more than two"}},
      {"offsets reversed", offsets("[8,0]"), {"tensor 't'", "end before they begin"}},
      {"offsets beyond the file", offsets("[0,8]", 7), {"tensor 't'", "reach beyond the 7 bytes"}},
      {"a terabyte",
       FileOf(OneTensor("\"F32\"", "[1099511627776]", "[0,4398046511104]"), 8),
       {"reach beyond the 8 bytes"}},
      {"offsets far beyond the file", offsets("[18446744073709551607,18446744073709551615]"), {"reach beyond the 8"}},
      // The tiling.
      {"hole before the first", FileOf(TwoTensors("[4,12]", "[12,20]"), 20), {"tensor 'a'", "begins at 4", "hole"}},
      {"hole between", FileOf(TwoTensors("[0,8]", "[9,17]"), 17), {"tensor 'b'", "begins at 9", "hole"}},
      {"overlap", FileOf(TwoTensors("[0,8]", "[4,12]"), 12), {"tensor 'b'", "begins at 4, inside"}},
      {"the same bytes twice", FileOf(TwoTensors("[0,8]", "[0,8]"), 8), {"tensor 'b'", "begins at 0, inside"}},
      {"bytes after the last", FileOf(TwoTensors("[0,8]", "[8,16]"), 17), {"ends at byte 16 of 17"}},
      {"bytes without a tensor", FileOf("{}", 1), {"ends at byte 0 of 1"}},
      {"empty tensor inside another",
       FileOf(TwoTensors("[0,8]", "[4,4]", "a", "b", "[0]"), 8),
       {"tensor 'b'", "begins at 4, inside"}},
  };
  // Values of another kind, wherever there may be one.
  const std::pair<const char*, const char*> kinds[] = {{"null", "null"},
                                                       {"1", "a number"},
                                                       {"\"x\"", "a string"},
                                                       {"true", "true or false"},
                                                       {"[]", "an array"},
                                                       {"{}", "an object"},
                                                       {"-2", "a number with a minus sign"},
                                                       {"-0", "a number with a minus sign"},
                                                       {"2.0", "a number with a fraction or exponent"},
                                                       {"2e0", "a number with a fraction or exponent"},
                                                       {"18446744073709551616", "does not fit 64 bits"}};
  for (const auto& [text, kind] : kinds) {
    const std::string value = text, is = kind;
    const auto add = [&](const std::string& place, const std::string& file, const std::string& words) {
      files.push_back({value + " as " + place, file, {words + is}});
    };
    if (is.starts_with("a number with") || value.size() > 4) {
      add("a size", shape("[" + value + "]"), value.size() > 4 ? "" : "not ");
      add("an offset", offsets("[" + value + ",8]"), value.size() > 4 ? "" : "not ");
      continue;
    }
    if (value != "{}") add("metadata", metadata(value), "__metadata__ must be an object, not ");
    if (value != "{}") add("a description", described(value), "tensor 't': must be described by an object, not ");
    if (value[0] != '"') add("a string of metadata", metadata("{\"a\":" + value + "}"), "__metadata__ maps 'a' to ");
    if (value[0] != '"') add("a dtype", dtype(value), "dtype must be a string, not ");
    if (value != "[]") add("a shape", shape(value), "shape must be an array, not ");
    if (value != "[]") add("offsets", offsets(value), "data_offsets must be an array, not ");
    if (value != "1") add("a size", shape("[" + value + "]"), "plain unsigned integers, not ");
    if (value != "1") add("an offset", offsets("[" + value + ",8]"), "plain unsigned integers, not ");
  }
  return files;
}

TEST_F(SafetensorsTest, MalformedFilesAreRefusedWithTheReason) {
  const std::string path = dir / "bad.safetensors";
  const auto read = [&](const std::string& bytes) {
    PutFile(path, bytes);
    const std::string message = MessageOf([&] { ReadSafetensorsHeader(path); }, ErrorKind::kData);
    EXPECT_EQ(message.rfind(path + ": ", 0), 0u) << message;
    EXPECT_LT(message.size(), path.size() + 400) << message;
    ResetPeakMemory();
    const int64_t before = GetMemoryStats().peak_bytes;
    try {
      ReadSafetensors(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), message);
      EXPECT_EQ(GetMemoryStats().peak_bytes, before) << "allocated before it was checked";
      throw;
    }
  };
  testing::ExpectRefused<std::string>(MalformedFiles(), read, ErrorKind::kData);
}

TEST_F(SafetensorsTest, UnusualButLegalFilesAreRead) {
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
      FileOf(TwoTensors("[0,8]", "[8,8]", "b", "a", "[0]"), 8),
      FileOf("{\"\\u00e9/\xc3\xa9 \xf0\x9f\x98\x80\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8),
  };
  for (const std::string& file : files) {
    PutFile(path, file);
    EXPECT_NO_THROW(ReadSafetensors(path)) << file;
  }
}

// One tensor of every dtype that there is here, and odd shapes.
std::vector<NamedTensor> SmallTensors() {
  return {{"bias", Tensor::FromValues<double>({3}, {0.1, -1e300, 5e-324})},
          {"count", Tensor::FromValues<int64_t>({}, {int64_t{-1} << 62})},
          {"ids", Tensor::FromValues<int32_t>({2}, {-1, 2147483647})},
          {"layer.weight", Tensor::FromValues<float>({2, 3}, {1, -2.5f, 3, 4, 5, 6e-30f})},
          {"mask", Tensor::FromValues<uint8_t>({3, 1}, {1, 0, 1})},
          {"nothing", Tensor::Zeros({4, 0}, DType::kFloat32)},
          {"strided", Tensor::FromValues<float>({2, 3}, {1, 2, 3, 4, 5, 6}).Transpose(0, 1)}};
}
const std::map<std::string, std::string> kMetadata = {{"format", "pt"}, {"note", "a\"b\\c\n\xc3\xa9"}};

std::string SmallFile(const std::string& path) {
  WriteSafetensors(path, SmallTensors(), kMetadata);
  return ReadFile(path);
}

TEST_F(SafetensorsTest, WhatIsWrittenIsRead) {
  SmallFile(dir / "file");
  const TensorFile file = ReadSafetensors(dir / "file");
  EXPECT_EQ(file.metadata, kMetadata);
  const std::vector<NamedTensor> tensors = SmallTensors();
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    EXPECT_EQ(file.tensors[i].name, name);
    EXPECT_EQ(file.At(name).dtype(), tensor.dtype()) << name;
    EXPECT_EQ(file.At(name).shape(), tensor.shape()) << name;
    EXPECT_EQ(file.At(name).To(DType::kFloat64).ToVector<double>(), tensor.To(DType::kFloat64).ToVector<double>());
  }
  EXPECT_EQ(file.Find("layer"), nullptr);
  EXPECT_EQ(MessageOf([&] { file.At("layer"); }, ErrorKind::kData), dir / "file: has no tensor 'layer'");
}

TEST_F(SafetensorsTest, OnlyTheNamedTensorsAreRead) {
  SmallFile(dir / "file");
  const std::vector<std::string> names = {"ids", "bias", "ids"}, absent = {"nope"};
  const TensorFile file = ReadSafetensors(dir / "file", names);
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.At("ids").ToVector<int32_t>(), (std::vector<int32_t>{-1, 2147483647}));
  EXPECT_EQ(MessageOf([&] { ReadSafetensors(dir / "file", absent); }, ErrorKind::kData),
            dir / "file: has no tensor 'nope'");
}

// In any order that tensors are given in: sorted by size and name, so that each is aligned.
// Longer than what is read at a time.
TEST_F(SafetensorsTest, ATensorIsReadAndComparedByPieces) {
  const int64_t n = (1 << 19) + 7;
  const Tensor halves = Tensor::Empty({n}, DType::kFloat32);
  for (int64_t i = 0; i < n; ++i) halves.data<float>()[i] = static_cast<float>(i % 256);
  const Tensor same = halves.Clone(), other = halves.Clone();
  other.data<float>()[n - 1] += 1;
  const NamedTensor tensors[] = {{"a", halves}, {"b", same}, {"c", other}, {"d", halves}};
  WriteSafetensors(dir / "x", tensors, {},
                   {{"a", HalfFormat::kBFloat16}, {"b", HalfFormat::kBFloat16}, {"c", HalfFormat::kBFloat16}});
  const TensorFileHeader header = ReadSafetensorsHeader(dir / "x");
  std::map<std::string, TensorInFile> in;
  for (const TensorFileEntry& entry : header.entries) in.emplace(entry.name, TensorInFile{dir / "x", &header, &entry});
  EXPECT_EQ(ReadTensor(in.at("a")).ToVector<float>(), halves.ToVector<float>());
  EXPECT_EQ(ReadTensor(in.at("d")).ToVector<float>(), halves.ToVector<float>());
  EXPECT_TRUE(AreSame(in.at("a"), in.at("b")));
  EXPECT_FALSE(AreSame(in.at("a"), in.at("c")));
  EXPECT_FALSE(AreSame(in.at("a"), in.at("d")));  // of another type
  WriteSafetensors(dir / "x", tensors);
  testing::ExpectError([&] { ReadTensor(in.at("a")); }, ErrorKind::kData, {"x: has changed"});
  testing::ExpectError([&] { AreSame(in.at("a"), in.at("b")); }, ErrorKind::kData, {"x: has changed"});
}

TEST_F(SafetensorsTest, TheBytesAreTheseOnEveryMachine) {
  std::vector<NamedTensor> tensors = {{"b", Tensor::FromValues<uint8_t>({1}, {1})},
                                      {"z", Tensor::FromValues<float>({1}, {1.0f})},
                                      {"a", Tensor::FromValues<float>({2}, {2.0f, -0.0f})},
                                      {"d", Tensor::FromValues<double>({1}, {1.0})},
                                      {"c", Tensor::FromValues<int64_t>({1}, {2})}};
  std::string header = R"({"__metadata__": {"k": "v"}, "c": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}, )"
                       R"("d": {"dtype": "F64", "shape": [1], "data_offsets": [8, 16]}, )"
                       R"("a": {"dtype": "F32", "shape": [2], "data_offsets": [16, 24]}, )"
                       R"("z": {"dtype": "F32", "shape": [1], "data_offsets": [24, 28]}, )"
                       R"("b": {"dtype": "BOOL", "shape": [1], "data_offsets": [28, 29]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  const std::string data("\2\0\0\0\0\0\0\0\0\0\0\0\0\0\xf0\x3f\0\0\0\x40\0\0\0\x80\0\0\x80\x3f\1", 29);
  for (int order = 0; order < 2; ++order) {
    WriteSafetensors(dir / "file", tensors, {{"k", "v"}});
    EXPECT_EQ(ReadFile(dir / "file"), Length(header.size()) + header + data);
    std::reverse(tensors.begin(), tensors.end());
  }
}

TEST_F(SafetensorsTest, WritingRefusesWhatReadingWould) {
  const Tensor t = Tensor::Zeros({1}, DType::kFloat32), two = Tensor::FromValues<uint8_t>({3}, {0, 1, 2});
  using Tensors = std::vector<NamedTensor>;
  testing::ExpectRefused<Tensors>({{"a name twice", {{"a", t}, {"a", t}}, {dir / "file: tensor 'a': is there twice"}},
                                   {"a long name", {{std::string(513, 'a'), t}}, {"513 bytes"}},
                                   {"a line end", {{"a\n", t}}, {"'a\\n': the name has a control character at byte 1"}},
                                   {"a name that is not UTF-8", {{"a\xff", t}}, {"not UTF-8"}},
                                   {"metadata's name", {{"__metadata__", t}}, {"cannot be called __metadata__"}},
                                   {"no tensor", {{"a", Tensor()}}, {"is undefined"}},
                                   {"a BOOL of 2", {{"m", two}}, {"BOOL element 2 is 2"}}},
                                  [&](const Tensors& tensors) { WriteSafetensors(dir / "file", tensors); });
  const std::map<std::string, std::string> metadata = {{"k", "\xff"}};
  testing::ExpectError([&] { WriteSafetensors(dir / "file", Tensors(), metadata); }, ErrorKind::kUsage,
                       {"metadata 'k' is not UTF-8"});
  EXPECT_TRUE(ListDirectory(dir.path()).empty());
}

TEST_F(SafetensorsTest, ValuesThatCannotBeLoadedAreNamed) {
  for (const auto& [dtype, bytes] : std::vector<std::pair<std::string, int>>{
           {"U8", 1}, {"I8", 1}, {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"I16", 2}, {"U16", 2}, {"U32", 4}, {"U64", 8}}) {
    dir.Put("file", FileOf(OneTensor("\"" + dtype + "\"", "[3]", "[0," + std::to_string(3 * bytes) + "]"), 3 * bytes));
    EXPECT_NO_THROW(ReadSafetensorsHeader(dir / "file")) << dtype;
    testing::ExpectError([&] { ReadSafetensors(dir / "file"); }, ErrorKind::kData,
                         {"tensor 't': dtype " + dtype + " cannot be loaded"});
  }
  dir.Put("file", FileOf(OneTensor("\"BOOL\"", "[3]", "[0,3]")) + std::string("\0\1\2", 3));
  EXPECT_EQ(MessageOf([&] { ReadSafetensors(dir / "file"); }, ErrorKind::kData),
            dir / "file: tensor 't': BOOL element 2 is 2, not 0 or 1");
}

TEST_F(SafetensorsTest, EveryTruncationIsRefused) {
  const std::string bytes = SmallFile(dir / "file");
  for (size_t size = 0; size < bytes.size(); ++size) {
    dir.Put("cut", std::string_view(bytes).substr(0, size));
    EXPECT_NE(MessageOf([&] { ReadSafetensors(dir / "cut"); }, ErrorKind::kData), "") << size;
  }
  dir.Put("longer", bytes + '\0');
  MessageOf([&] { ReadSafetensors(dir / "longer"); }, ErrorKind::kData);
}

TEST_F(SafetensorsTest, NoSingleFlippedBitOfTheHeaderCrashes) {
  const std::string bytes = SmallFile(dir / "file");
  const TensorFileHeader header = ReadSafetensorsHeader(dir / "file");
  size_t refused = 0;
  for (size_t bit = 0; bit < 8 * header.data_begin; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    dir.Put("flipped", flipped);
    try {
      // What is still a legal file holds as many bytes of tensors as before.
      const TensorFile file = ReadSafetensors(dir / "flipped");
      EXPECT_LE(file.tensors.size(), 7u) << "bit " << bit;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData) << "bit " << bit << ": " << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 8 * header.data_begin / 2);  // most bits are structure; some are letters of names
}

TEST_F(SafetensorsTest, SourcesAreReadOneByOneInTheOrderOfTheFile) {
  std::vector<NamedTensor> tensors = {{"b", Tensor::Zeros({3, 5}, DType::kFloat32)},
                                      {"a", Tensor::Full({7}, 2, DType::kFloat32)},
                                      {"z", Tensor::Zeros({2}, DType::kInt64)},
                                      {"flag", Tensor::Zeros({3}, DType::kBool)}};
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
  for (const NamedTensor& one : tensors) order += one.name + " ";
  EXPECT_EQ(order, "z a b flag z a b flag ");
}

}  // namespace safetensors_test
}  // namespace crosstalk
