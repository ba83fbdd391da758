#include "crosstalk/runtime/storage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "crosstalk/runtime/check.h"
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

}  // namespace storage_test
}  // namespace crosstalk
