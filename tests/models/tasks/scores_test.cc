#include "crosstalk/models/tasks/scores.h"

#include <gtest/gtest.h>

#include <cmath>

#include "crosstalk/models/tasks/task.h"
#include "tests/support/messages.h"

namespace crosstalk::scores_test {

TEST(BenchmarkAverageTest, MnliIsOneTaskAndWnliMayBeLeftOut) {
  const std::map<std::string, double> scores = {{"cola", 0.1}, {"sst-2", 0.2},  {"mrpc", 0.3}, {"sts-b", 0.4},
                                                {"qqp", 0.5},  {"mnli-m", 0.6}, {"qnli", 0.7}, {"mnli-mm", 1},
                                                {"rte", 0.9},  {"wnli", 0},     {"ax", 77}};
  const auto averages = BenchmarkAverages("glue", scores);
  ASSERT_EQ(averages.size(), 2u);
  EXPECT_EQ(averages[0].name, "average");
  EXPECT_DOUBLE_EQ(averages[0].value, (0.1 + 0.2 + 0.3 + 0.4 + 0.5 + 0.8 + 0.7 + 0.9) / 9);
  EXPECT_EQ(averages[0].tasks, 9);
  EXPECT_EQ(averages[0].of, 9);
  EXPECT_EQ(averages[1].name, "average_without_wnli");
  EXPECT_DOUBLE_EQ(averages[1].value, (0.1 + 0.2 + 0.3 + 0.4 + 0.5 + 0.8 + 0.7 + 0.9) / 8);
  EXPECT_EQ(averages[1].of, 8);
}

TEST(BenchmarkAverageTest, MissingTasksAreNotCounted) {
  const auto averages = BenchmarkAverages("superglue", {{"cb", 0.5}, {"rte", 1}, {"mnli-m", 0}});
  ASSERT_EQ(averages.size(), 1u);
  EXPECT_EQ(averages[0].value, 0.75);
  EXPECT_EQ(averages[0].tasks, 2);
  EXPECT_EQ(averages[0].of, 8);
  EXPECT_EQ(BenchmarkAverages("glue", {{"mnli-mm", 0.5}})[0].value, 0.5);
  EXPECT_TRUE(std::isnan(BenchmarkAverages("glue", {})[0].value));
}

TEST(BenchmarkAverageTest, EveryBenchmarkIsOfKnownTasks) {
  for (const std::string& benchmark : BenchmarkNames()) {
    for (const std::string& task : BenchmarkTasks(benchmark)) EXPECT_EQ(FindTask(task).name, task);
  }
  testing::ExpectError([] { BenchmarkTasks("squad"); }, ErrorKind::kUsage,
                       {"benchmark: \"squad\" is none of glue, superglue"});
}

}  // namespace crosstalk::scores_test
