#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/storage.h"
#include "crosstalk/runtime/tensor.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace shapes_only_test {

int64_t ResidentPages() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident;
}

TEST(ShapesOnlyTest, ATerabyteIsCountedAndTakesNoMemory) {
  const MemoryStats before = GetMemoryStats();
  const int64_t resident = ResidentPages();
  {
    const ContextScope shapes_only(&OpContext::shapes_only, true);
    constexpr int64_t kElements = int64_t{1} << 38;
    const Tensor x = Tensor::Zeros({kElements}, DType::kFloat32);
    x.Fill(3);
    FillNormal(x, {}, 0, 1);
    EXPECT_EQ(GetMemoryStats().live_bytes - before.live_bytes, 4 * kElements);
    const Tensor copy = x.Clone();
    const Tensor converted = copy.To(DType::kFloat64);
    EXPECT_EQ(converted.At({kElements - 1}), 0);
    EXPECT_EQ(GetMemoryStats().peak_bytes - before.live_bytes, 16 * kElements);
  }
  EXPECT_EQ(GetMemoryStats().live_bytes, before.live_bytes);
  EXPECT_EQ(GetMemoryStats().cached_bytes, before.cached_bytes);
  // 64 MiB, far below the three terabytes: room for what sanitizers and libraries make for themselves.
  EXPECT_LT(ResidentPages() - resident, 64 * 256);
  ResetPeakMemory();
}

TEST(ShapesOnlyTest, BytesAreThoseOfARealAllocation) {
  for (const int64_t elements : {0, 1, 17, 1000, 300001}) {
    const int64_t before = GetMemoryStats().live_bytes;
    int64_t real = 0;
    {
      const Tensor x = Tensor::Empty({elements}, DType::kFloat64);
      real = GetMemoryStats().live_bytes - before;
    }
    const ContextScope shapes_only(&OpContext::shapes_only, true);
    const Tensor x = Tensor::Empty({elements}, DType::kFloat64);
    EXPECT_EQ(GetMemoryStats().live_bytes - before, real) << elements;
  }
}

TEST(ShapesOnlyTest, TensorsFromOutsideStayAsTheyAre) {
  const Tensor x = Tensor::FromValues<float>({2}, {1, 2});
  Tensor later;
  {
    const ContextScope shapes_only(&OpContext::shapes_only, true);
    x.Fill(5);
    const Tensor y = Tensor::Full({2}, 7, DType::kFloat32);
    x.CopyFrom(y);
    EXPECT_EQ(Tensor::Scalar(3, DType::kFloat32).Item(), 0);
    EXPECT_EQ(y.Reshape({1, 2}).Transpose(0, 1).Contiguous().shape(), Shape({2, 1}));
    const Tensor host = Tensor::FromValues<int32_t>({1}, {4});
    EXPECT_EQ(host.Item(), 4);  // what the host writes itself is there
    later = y;
  }
  EXPECT_EQ(x.ToVector<float>(), (std::vector<float>{1, 2}));
  later = Tensor();  // outlives its scope, and goes back to where it came from
  EXPECT_EQ(Tensor::Full({2}, 7, DType::kFloat32).ToVector<float>(), (std::vector<float>{7, 7}));
}

TEST(CountMultiplicationsTest, AddsToTheInnermostScopeUpToTooMany) {
  CountMultiplications(1000);  // nowhere
  int64_t outer = 0, inner = 0;
  const ContextScope counted(&OpContext::multiplications, &outer);
  CountMultiplications(2);
  {
    const ContextScope apart(&OpContext::multiplications, &inner);
    CountMultiplications(3);
  }
  {
    const ContextScope uncounted(&OpContext::multiplications, nullptr);
    CountMultiplications(4);
  }
  CountMultiplications(5);
  EXPECT_EQ(outer, 7);
  EXPECT_EQ(inner, 3);
  CountMultiplications((int64_t{1} << 62) - 7);
  EXPECT_EQ(CheckedMultiplications(outer), int64_t{1} << 62);
  CountMultiplications(SaturatingProduct(int64_t{1} << 31, int64_t{1} << 31));
  CountMultiplications(7);
  EXPECT_EQ(outer, kTooMany);
  EXPECT_EQ(testing::MessageOf([&] { CheckedMultiplications(outer); }),
            "the sizes are too large: their multiplications do not fit in 63 bits");
}

TEST(LaunchTest, RunsTheKernelOnlyWhereElementsCount) {
  int runs = 0;
  Launch([&] { ++runs; });
  Launch("test", DType::kFloat64, [&](auto zero) { runs += sizeof(zero); });
  EXPECT_EQ(runs, 9);
  const ContextScope shapes_only(&OpContext::shapes_only, true);
  Launch([&] { ++runs; });
  Launch("test", DType::kFloat64, [&](auto) { ++runs; });
  EXPECT_EQ(runs, 9);
  EXPECT_THROW(Launch("test", DType::kInt32, [](auto) {}), Error);  // what a real call refuses
}

}  // namespace shapes_only_test
}  // namespace crosstalk
