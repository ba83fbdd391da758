#include "crosstalk/models/text/dataset.h"

#include <gtest/gtest.h>

#include <set>

#include "crosstalk/runtime/check.h"

namespace crosstalk::dataset_test {

TEST(PermutationTest, VisitsEveryNumberOnce) {
  for (int64_t count : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000}) {
    for (uint32_t stream = 0; stream < 5; ++stream) {
      std::set<int64_t> seen;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t value = PermutedIndex(i, count, {1, stream, 0});
        EXPECT_GE(value, 0);
        EXPECT_LT(value, count);
        seen.insert(value);
      }
      EXPECT_EQ(static_cast<int64_t>(seen.size()), count);
    }
  }
}

TEST(PermutationTest, TheKeyChoosesTheOrder) {
  int same = 0, fixed = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    same += PermutedIndex(i, 1000, {1, 0, 0}) == PermutedIndex(i, 1000, {1, 0, 1});
    fixed += PermutedIndex(i, 1000, {1, 0, 0}) == i;
  }
  // Two random orders agree in one place on average (Poisson: 10 or more has a chance of 1e-7).
  EXPECT_LT(same, 10);
  EXPECT_LT(fixed, 10);
}

TEST(PermutationTest, ReachesLargeCounts) {
  const int64_t count = (int64_t{1} << 61) + 12345;
  const int64_t value = PermutedIndex(count - 1, count, {1, 2, 3});
  EXPECT_GE(value, 0);
  EXPECT_LT(value, count);
  EXPECT_THROW(PermutedIndex(5, 5, {}), Error);
}

}  // namespace crosstalk::dataset_test
