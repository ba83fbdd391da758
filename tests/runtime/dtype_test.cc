#include "crosstalk/runtime/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/safetensors.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace dtype_test {

constexpr HalfFormat kFormats[] = {HalfFormat::kFloat16, HalfFormat::kBFloat16};

TEST(HalfTest, EveryPatternComesBack) {
  // By the definition: (-1)^s · 2^(e-15) · 1.f, subnormals 2^-14 · 0.f.
  EXPECT_EQ(Widen(HalfFormat::kFloat16, 0x3555), 0x1.554p-2f);
  EXPECT_EQ(Widen(HalfFormat::kFloat16, 0x83ff), -1023 * 0x1p-24f);
  for (const HalfFormat format : kFormats) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const auto pattern = static_cast<uint16_t>(bits);
      ASSERT_EQ(Narrow(format, Widen(format, pattern)), pattern) << Name(format) << " " << bits;
    }
  }
}

// Between two neighbours the one that is nearer, in the middle the one whose last bit is 0, for both signs; beyond the
// largest finite value, the place where the next one would be counts as infinity.
TEST(HalfTest, RoundsToTheNearestAndTiesToEven) {
  for (const HalfFormat format : kFormats) {
    const uint16_t infinity = format == HalfFormat::kFloat16 ? 0x7c00 : 0x7f80;
    const double beyond = format == HalfFormat::kFloat16 ? 65536.0 : 0x1p128;
    for (uint32_t low = 0; low < infinity; ++low) {
      const auto below = static_cast<uint16_t>(low), above = static_cast<uint16_t>(low + 1);
      const double a = Widen(format, below), b = above == infinity ? beyond : double{Widen(format, above)};
      const auto middle = static_cast<float>((a + b) / 2);
      const auto under = std::nextafter(middle, 0.0f);
      const auto over = std::nextafter(middle, std::numeric_limits<float>::infinity());
      const uint16_t even = low % 2 == 0 ? below : above;
      ASSERT_EQ(Narrow(format, middle), even) << Name(format) << " " << low;
      ASSERT_EQ(Narrow(format, under), below) << Name(format) << " " << low;
      ASSERT_EQ(Narrow(format, over), above) << Name(format) << " " << low;
      ASSERT_EQ(Narrow(format, -middle), even | 0x8000) << Name(format) << " " << low;
    }
  }
}

TEST(HalfTest, NaNStaysNaN) {
  for (const HalfFormat format : kFormats) {
    for (const uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0x7fffffffu}) {
      const float back = Widen(format, Narrow(format, std::bit_cast<float>(bits)));
      EXPECT_TRUE(std::isnan(back)) << bits;
      EXPECT_EQ(std::signbit(back), bits >> 31 == 1) << bits;
    }
  }
}

// All patterns through a file, beside a tensor of another type, in more pieces than one.
TEST(HalfTest, FilesKeepEveryPattern) {
  const TempDir dir;
  const std::string path = dir / "halves.safetensors";
  const int64_t copies = 9;  // more elements than a piece that is written at a time
  std::vector<NamedTensor> tensors = {{"whole", Tensor::Full({3}, 1.5, DType::kFloat32)}};
  for (const HalfFormat format : kFormats) {
    Tensor values = Tensor::Empty({copies, 65536}, DType::kFloat32);
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      values.data<float>()[i] = Widen(format, static_cast<uint16_t>(i));
    }
    tensors.push_back({Name(format), values});
  }
  WriteSafetensors(path, tensors, {}, {{"float16", HalfFormat::kFloat16}, {"bfloat16", HalfFormat::kBFloat16}});
  const TensorFileHeader header = ReadSafetensorsHeader(path);
  ASSERT_EQ(header.entries.size(), 3u);
  EXPECT_EQ(header.entries[0].dtype, "F32");
  EXPECT_EQ(header.entries[1].dtype, "BF16");
  EXPECT_EQ(header.entries[2].dtype, "F16");
  const TensorFile file = ReadSafetensors(path);
  for (const NamedTensor& tensor : tensors) {
    const Tensor& read = file.At(tensor.name);
    const auto bytes = static_cast<size_t>(read.num_elements()) * 4;
    EXPECT_EQ(std::memcmp(read.raw_data(), tensor.tensor.raw_data(), bytes), 0) << tensor.name;
  }
}

TEST(HalfTest, OnlyFloat32IsWrittenInSixteenBits) {
  const TempDir dir;
  const std::vector<NamedTensor> tensors = {{"ids", Tensor::Full({2}, 1, DType::kInt32)}};
  EXPECT_THROW(WriteSafetensors(dir / "x", tensors, {}, {{"ids", HalfFormat::kFloat16}}), Error);
}

}  // namespace dtype_test
}  // namespace crosstalk
