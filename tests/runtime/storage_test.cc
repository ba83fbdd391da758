#include "crosstalk/runtime/storage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/tensor.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace storage_test {

TEST(StorageTest, BlocksAreAlignedAndReadableBehindTheEnd) {
  for (size_t bytes : {0, 1, 63, 64, 65, 1000, 4097, 1 << 20}) {
    const auto storage = Storage::Allocate(bytes);
    EXPECT_EQ(storage->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(storage->data()) % kAlignment, 0u) << bytes;
    std::memset(storage->data(), 1, bytes + 64);  // an address checker sees a block that is too short
  }
}

TEST(StorageTest, LiveAndPeakBytesFollowTheBlocks) {
  ReleaseCachedMemory();
  const int64_t before = GetMemoryStats().live_bytes;
  ResetPeakMemory();
  EXPECT_EQ(GetMemoryStats().peak_bytes, before);
  {
    const auto a = Storage::Allocate(1 << 20);
    { const auto b = Storage::Allocate(1 << 20); }
    EXPECT_EQ(GetMemoryStats().live_bytes, before + (1 << 20));
    EXPECT_EQ(GetMemoryStats().cached_bytes, 1 << 20);
  }
  EXPECT_EQ(GetMemoryStats().live_bytes, before);
  EXPECT_EQ(GetMemoryStats().peak_bytes, before + (2 << 20));
  ReleaseCachedMemory();
  EXPECT_EQ(GetMemoryStats().cached_bytes, 0);
}

TEST(StorageTest, AtMostAnEighthOfABlockIsWasted) {
  for (int64_t bytes = 512; bytes < 100'000; bytes += 97) {
    const int64_t before = GetMemoryStats().live_bytes;
    const auto storage = Storage::Allocate(bytes);
    const int64_t held = GetMemoryStats().live_bytes - before;
    EXPECT_GE(held, bytes);
    EXPECT_LE((held - bytes) * 8, held) << bytes;
  }
}

TEST(StorageTest, TheSameSizesTakeNothingFromTheSystemTwice) {
  const auto step = [] {
    std::vector<std::shared_ptr<Storage>> blocks;
    for (size_t bytes : {100, 5000, 5000, 70'000, 300'000}) blocks.push_back(Storage::Allocate(bytes));
  };
  step();
  const int64_t taken = GetMemoryStats().system_allocations;
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(GetMemoryStats().system_allocations, taken);
}

TEST(StorageTest, EverNewSizesDoNotPileUp) {
  ReleaseCachedMemory();
  const int64_t before = GetMemoryStats().live_bytes;
  int64_t largest = 0;
  for (size_t bytes = 100'000; bytes < 30'000'000; bytes += bytes / 8) {
    const auto storage = Storage::Allocate(bytes);
    largest = GetMemoryStats().live_bytes - before;
    EXPECT_LE(GetMemoryStats().cached_bytes, 4 * std::max<int64_t>(largest, 4 << 20)) << bytes;
  }
  EXPECT_GT(largest, 20'000'000);
  ReleaseCachedMemory();
}

TEST(StorageTest, SizesThatCannotBeAreErrorsThatSayHowMuch) {
  EXPECT_EQ(testing::MessageOf([&] { Storage::Allocate(~size_t{0}); }), "cannot allocate 18446744073709551615 bytes");
#if !defined(__SANITIZE_ADDRESS__)  // address checkers have their own limit and end the process instead
  const std::string message = testing::MessageOf([&] { Storage::Allocate(size_t{1} << 59); }, ErrorKind::kResource);
  EXPECT_EQ(message.rfind("out of memory: 576460752303423488 bytes asked for, ", 0), 0u) << message;
  EXPECT_NO_THROW(Storage::Allocate(64));
#endif
}

TEST(StorageTest, ThreadsMayAllocateAndFreeAtOnce) {
  const int64_t before = GetMemoryStats().live_bytes;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 500; ++i) {
        const auto storage = Storage::Allocate(64 * (1 + (i * 7 + t) % 13));
        std::memset(storage->data(), t, storage->bytes());
        const auto* bytes = static_cast<const char*>(storage->data());
        for (size_t k = 0; k < storage->bytes(); ++k) ASSERT_EQ(bytes[k], t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(GetMemoryStats().live_bytes, before);
}

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

}  // namespace storage_test
}  // namespace crosstalk
