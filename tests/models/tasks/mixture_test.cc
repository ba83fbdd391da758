#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "crosstalk/models/tasks/task_set.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace mixture_test {

// How often each row of each task comes in places [begin, end).
std::vector<std::map<int64_t, int>> Counts(const TaskMixture& mixture, size_t tasks, int64_t begin, int64_t end) {
  std::vector<std::map<int64_t, int>> counts(tasks);
  for (int64_t place = begin; place < end; ++place) {
    const TaskMixture::Place at = mixture.At(place);
    ++counts.at(at.task)[at.row];
  }
  return counts;
}

TEST(TaskMixtureTest, APassHasEveryRowOnce) {
  const TaskMixture mixture({5, 11, 1}, std::nullopt, 3);
  EXPECT_EQ(mixture.size(), 17);
  for (int64_t pass = 0; pass < 4; ++pass) {
    const auto counts = Counts(mixture, 3, 17 * pass, 17 * (pass + 1));
    const size_t sizes[] = {5, 11, 1};
    for (size_t task = 0; task < 3; ++task) {
      EXPECT_EQ(counts[task].size(), sizes[task]);
      for (const auto& [row, count] : counts[task]) EXPECT_EQ(count, 1) << "task " << task << ", row " << row;
    }
  }
}

TEST(TaskMixtureTest, ACapTakesAsManyRowsOfALargeTaskAndAllOfThemInTurn) {
  const TaskMixture mixture({3, 10}, 4, 3);
  EXPECT_EQ(mixture.size(), 7);
  // Five passes take 20 rows of the large task: each of its ten rows twice, and each once in the first ten of them.
  const auto counts = Counts(mixture, 2, 0, 35);
  for (const auto& [row, count] : counts[0]) EXPECT_EQ(count, 5) << row;
  EXPECT_EQ(counts[1].size(), 10u);
  for (const auto& [row, count] : counts[1]) EXPECT_EQ(count, 2) << row;
  for (int64_t pass = 0; pass < 5; ++pass) {
    int64_t large = 0;
    const auto of_the_pass = Counts(mixture, 2, 7 * pass, 7 * (pass + 1));
    for (const auto& [row, count] : of_the_pass[1]) large += count;
    EXPECT_EQ(large, 4) << "pass " << pass;
  }
}

TEST(TaskMixtureTest, PassesAndSeedsHaveOrdersOfTheirOwn) {
  const auto order = [](uint64_t seed, int64_t begin) {
    const TaskMixture mixture({20, 30}, std::nullopt, seed);
    std::vector<int64_t> rows;
    for (int64_t place = begin; place < begin + 50; ++place) {
      rows.push_back(static_cast<int64_t>(mixture.At(place).task) * 100 + mixture.At(place).row);
    }
    return rows;
  };
  EXPECT_EQ(order(1, 0), order(1, 0));
  EXPECT_NE(order(1, 0), order(1, 50));
  EXPECT_NE(order(1, 0), order(2, 0));
}

TEST(TaskMixtureTest, RefusesWhatHasNoRows) {
  EXPECT_THROW(TaskMixture({}, std::nullopt, 1), Error);
  EXPECT_THROW(TaskMixture({3, 0}, std::nullopt, 1), Error);
}

}  // namespace mixture_test
}  // namespace crosstalk
