#include "crosstalk/models/tasks/task_set.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "crosstalk/models/tasks/measures.h"
#include "crosstalk/runtime/check.h"
#include "tests/support/messages.h"
#include "tests/support/task_cases.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace task_set_test {

constexpr char kMnliHeader[] =
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse\t"
    "sentence1\tsentence2\tlabel1\tgold_label\n";

std::string MnliRow(int index, const std::string& label) {
  return std::to_string(index) + "\t1\t1e\tfiction\t(a)\t(b)\t(a)\t(b)\tIt rains.\tIt is wet.\t" + label + "\t" +
         label + "\n";
}

class TaskSetTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& bytes) { WriteTaskFile(dir_ / "", name, bytes); }
  void WriteSst2(const std::string& name, const std::vector<std::string>& labels) {
    std::string text = "sentence\tlabel\n";
    for (size_t i = 0; i < labels.size(); ++i) text += "film " + std::to_string(i) + "\t" + labels[i] + "\n";
    Write("SST-2/" + name, text);
  }
  TaskSet Open(const std::string& names) { return OpenTasks(ParseTasks(names), dir_ / ""); }

  TempDir dir_;
};

TEST_F(TaskSetTest, ReadsWhatTheFolderHas) {
  WriteSst2("train.tsv", {"0", "1", "1"});
  WriteSst2("dev.tsv", {"1", "0"});
  const TaskSet set = Open("sst-2");
  ASSERT_EQ(set.tasks.size(), 1u);
  EXPECT_EQ(set.tasks[0].train->size(), 3u);
  EXPECT_EQ(set.tasks[0].dev->size(), 2u);
  EXPECT_EQ(set.tasks[0].test, nullptr);
  EXPECT_EQ(set.description, "sst-2 (3 to train on, 2 held out)");
}

TEST_F(TaskSetTest, TheFingerprintIsThatOfTheRows) {
  WriteSst2("train.tsv", {"0", "1", "1"});
  WriteSst2("dev.tsv", {"1", "0"});
  const std::string before = Open("sst-2").fingerprint;
  EXPECT_EQ(Open("sst-2").fingerprint, before);
  WriteSst2("train.tsv", {"0", "1", "0"});
  EXPECT_NE(Open("sst-2").fingerprint, before);
}

TEST_F(TaskSetTest, TasksThatShareAFileTrainOnItOnce) {
  Write("MNLI/train.tsv", kMnliHeader + MnliRow(0, "neutral") + MnliRow(1, "entailment"));
  const std::string dev_header = std::string(kMnliHeader).substr(0, std::string(kMnliHeader).find("\tgold_label")) +
                                 "\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label\n";
  const std::string dev_row =
      "0\t1\t1e\tfiction\t(a)\t(b)\t(a)\t(b)\tIt rains.\tIt is wet.\tneutral\tneutral\tneutral\tneutral\tneutral\t"
      "neutral\n";
  Write("MNLI/dev_matched.tsv", dev_header + dev_row);
  Write("MNLI/dev_mismatched.tsv", dev_header + dev_row);
  const TaskSet set = Open("mnli-m,mnli-mm");
  EXPECT_EQ(set.tasks.size(), 2u);
  ASSERT_EQ(set.TrainingParts().size(), 1u);
  EXPECT_EQ(set.TrainingParts()[0].rows->size(), 2u);
}

TEST_F(TaskSetTest, NamesAreChecked) {
  testing::ExpectError([] { ParseTasks(""); }, ErrorKind::kUsage, {"is missing"});
  testing::ExpectError([] { ParseTasks("sst2"); }, ErrorKind::kUsage, {"did you mean \"sst-2\"?"});
  testing::ExpectError([] { ParseTasks("cola,cola"); }, ErrorKind::kUsage, {"stands there twice"});
}

TEST_F(TaskSetTest, AHeadServesTasksOfOneFormAndTheSameLabels) {
  EXPECT_STREQ(TaskOfHead(ParseTasks("mnli-m,mnli-mm,ax")).name, "mnli-m");
  EXPECT_STREQ(TaskOfHead(ParseTasks("rte,ax-b")).name, "rte");
  testing::ExpectError([] { TaskOfHead(ParseTasks("mnli-m,rte")); }, ErrorKind::kUsage,
                       {"mnli-m and rte have other answers"});
  testing::ExpectError([] { TaskOfHead(ParseTasks("cola,sts-b")); }, ErrorKind::kUsage, {"one head"});
}

TEST_F(TaskSetTest, AFolderWithoutFilesOrHeldOutRowsIsRefused) {
  testing::ExpectError([&] { Open("sst-2"); }, ErrorKind::kUsage, {"has no file of sst-2"});
  WriteSst2("train.tsv", {"0", "1", "1"});
  testing::ExpectError([&] { Open("sst-2"); }, ErrorKind::kUsage, {"has no held-out rows with answers"});
  testing::ExpectError([&] { OpenTasks(ParseTasks("sst-2"), ""); }, ErrorKind::kUsage, {"is missing"});
  EXPECT_THROW(OpenTasks(ParseTasks("sst-2"), dir_ / "", [] { return true; }), Interrupted);
}

TEST_F(TaskSetTest, TheBestConstantAnswerIsFound) {
  WriteSst2("dev.tsv", {"1", "0", "1", "1", "0"});
  const std::vector<TaskRow> rows = ReadTask("sst-2", dir_ / "SST-2/dev.tsv", TaskSplit::kDev);
  const TaskType& sst2 = FindTask("sst-2");
  const ConstantAnswer guess = BestConstantAnswer(sst2, rows);
  ASSERT_EQ(guess.predictions.size(), 5u);
  for (const TaskPrediction& one : guess.predictions) EXPECT_EQ(one.answer, "1");
  EXPECT_DOUBLE_EQ(MainScore(sst2, guess.measures), 0.6);
}

TEST(ConstantGuessTest, OfNumbersItIsTheMeanAndOfChoicesAPlace) {
  const TaskType& sts = FindTask("sts-b");
  std::vector<TaskRow> rows(3);
  for (size_t i = 0; i < 3; ++i) {
    rows[i].id = std::to_string(i);
    rows[i].labelled = true;
    rows[i].number = static_cast<double>(i) + 1.5;
  }
  for (const TaskPrediction& one : BestConstantAnswer(sts, rows).predictions) EXPECT_EQ(std::stod(one.answer), 2.5);

  const TaskType& copa = FindTask("copa");
  for (TaskRow& row : rows) {
    row.choices = {{"b", "0"}, {"c", "1"}};
    row.label = 1;
  }
  for (const TaskPrediction& one : BestConstantAnswer(copa, rows).predictions) EXPECT_EQ(one.answer, "1");
}

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

}  // namespace task_set_test
}  // namespace crosstalk
