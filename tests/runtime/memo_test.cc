#include "crosstalk/runtime/memo.h"

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace crosstalk {
namespace {

TEST(MemoTest, MakesAValueOncePerKey) {
  Memo<std::string> memo;
  int made = 0;
  const auto get = [&](const MemoKey& key) { return *memo.Get(key, [&] { return std::to_string(++made); }); };
  EXPECT_EQ(get(MemoKey("a").Add(1)), "1");
  EXPECT_EQ(get(MemoKey("a").Add(2)), "2");
  EXPECT_EQ(get(MemoKey("b").Add(1)), "3");
  EXPECT_EQ(get(MemoKey().Add(1)), "4");
  EXPECT_EQ(get(MemoKey("a").Add(1)), "1");
  EXPECT_EQ(made, 4);
  // Keys of other lengths, too.
  EXPECT_NE(MemoKey("a").Add(0).bytes(), MemoKey("a").bytes());
  const std::string zero(sizeof(int64_t), '\0');
  EXPECT_NE(MemoKey("a" + zero).bytes(), MemoKey("a").Add(0).bytes());
  EXPECT_NE(MemoKey(std::string("a") + '\0' + zero).bytes(), MemoKey("a").Add(0).bytes());
  EXPECT_NE(MemoKey("a").Add(1).Add(2).bytes(), MemoKey("a").Add(2).Add(1).bytes());
}

TEST(MemoTest, AValueThatCannotBeMadeIsAskedForAgain) {
  Memo<int> memo;
  EXPECT_THROW(memo.Get(MemoKey("a"), []() -> int { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(*memo.Get(MemoKey("a"), [] { return 7; }), 7);
}

TEST(MemoTest, HoldsABoundedNumberAndAValueOutlivesIt) {
  Memo<int64_t> memo;
  const std::shared_ptr<const int64_t> first = memo.Get(MemoKey().Add(-1), [] { return int64_t{-1}; });
  for (int64_t i = 0; i < 2000; ++i) EXPECT_EQ(*memo.Get(MemoKey().Add(i), [&] { return i; }), i);
  EXPECT_EQ(first.use_count(), 1);
  EXPECT_EQ(*first, -1);
}

TEST(MemoTest, ThreadsShareItsValues) {
  Memo<int64_t> memo;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&memo] {
      for (int64_t i = 0; i < 3000; ++i) EXPECT_EQ(*memo.Get(MemoKey().Add(i % 700), [&] { return i % 700; }), i % 700);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto held = memo.Get(MemoKey("one"), [] { return int64_t{1}; });
  std::thread([&] { EXPECT_EQ(memo.Get(MemoKey("one"), [] { return int64_t{2}; }), held); }).join();
}

}  // namespace
}  // namespace crosstalk
