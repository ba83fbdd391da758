#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/support/task_cases.h"

namespace crosstalk::registry_test {

std::vector<TaskRow> Kept(TaskSplit split) {
  const char* source = std::getenv("CROSSTALK_SOURCE");
  const TaskType& type = FindTask("stories");
  const auto path = FindTaskFile(type, std::string(source == nullptr ? "." : source) + "/examples", split);
  EXPECT_TRUE(path.has_value());
  return type.read(type, *path, split);
}

TEST(StoriesTaskTest, ItsFilesShipWithTheProgram) {
  const auto train = Kept(TaskSplit::kTrain), dev = Kept(TaskSplit::kDev), test = Kept(TaskSplit::kTest);
  EXPECT_EQ(train.size(), 2000u);
  EXPECT_EQ(dev.size(), 300u);
  EXPECT_EQ(test.size(), 300u);
  EXPECT_FALSE(test[0].labelled);
  EXPECT_EQ(train[0].input, "stories question: " + train[0].first + " answer: " + *train[0].second);
  EXPECT_EQ(train[0].targets, std::vector<std::string>{train[0].label == 0 ? "no" : "yes"});
}

TEST(StoriesTaskTest, NeitherTheMajorityNorEitherSentenceAloneTellsTheLabel) {
  // A count of n fair coins lies within 4 · √n/2 of n/2.
  for (const TaskSplit split : {TaskSplit::kTrain, TaskSplit::kDev}) {
    std::map<std::string, double> rows, yes;  // by what a sentence begins with: "Where", "At", …
    for (const TaskRow& row : Kept(split)) {
      for (const std::string& begin : {row.first.substr(0, 5), row.second->substr(0, 4), std::string()}) {
        rows[begin] += 1;
        yes[begin] += row.label == 1;
      }
    }
    for (const auto& [begin, n] : rows) EXPECT_LT(std::abs(yes[begin] - n / 2), 2 * std::sqrt(n) + 1) << begin;
  }
}

TEST(StoriesTaskTest, NoPairOfTheDevSetWasTrainedOn) {
  std::set<std::string> seen;
  for (const TaskRow& row : Kept(TaskSplit::kTrain)) seen.insert(row.first + *row.second);
  for (const TaskRow& row : Kept(TaskSplit::kDev)) EXPECT_EQ(seen.count(row.first + *row.second), 0u) << row.first;
}

TEST(StoriesTaskTest, PredictionsAreReadAsTheyAreWritten) {
  const TempDir directory;
  const TaskType& type = FindTask("stories");
  const auto rows = Kept(TaskSplit::kTest);
  EXPECT_EQ(type.answer_of_text(type, rows[0], " yes"), "yes");
  EXPECT_EQ(type.answer_of_text(type, rows[0], "yesterday"), "yesterday");
  EXPECT_EQ(type.write(type, rows, SomePredictions(type, rows), TaskSplit::kTest)[0].name, "stories.tsv");
  ExpectRoundTrip(type, rows, SomePredictions(type, rows), directory.path());
}

}  // namespace crosstalk::registry_test
