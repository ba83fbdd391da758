#include "crosstalk/models/tasks/task_set.h"

#include "crosstalk/models/tasks/measures.h"
#include "tests/support/task_cases.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::task_set_test {

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

TEST_F(TaskSetTest, ReadsWhatTheFolderHasUnderTheFingerprintOfItsRows) {
  WriteSst2("train.tsv", {"0", "1", "1"});
  WriteSst2("dev.tsv", {"1", "0"});
  const TaskSet set = Open("sst-2");
  ASSERT_EQ(set.tasks.size(), 1u);
  EXPECT_EQ(set.tasks[0].train->size(), 3u);
  EXPECT_EQ(set.tasks[0].dev->size(), 2u);
  EXPECT_EQ(set.tasks[0].test, nullptr);
  EXPECT_EQ(set.description, "sst-2 (3 to train on, 2 held out)");
  EXPECT_EQ(Open("sst-2").fingerprint, set.fingerprint);
  WriteSst2("train.tsv", {"0", "1", "0"});
  EXPECT_NE(Open("sst-2").fingerprint, set.fingerprint);
}

TEST_F(TaskSetTest, TasksThatShareAFileTrainOnItOnce) {
  const std::string columns =
      "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t"
      "sentence2_parse\tsentence1\tsentence2\tlabel1\t";
  const std::string row = "\t1\t1e\tfiction\t(a)\t(b)\t(a)\t(b)\tIt rains.\tIt is wet.\tneutral\t", n = "neutral\t";
  Write("MNLI/train.tsv", columns + "gold_label\n0" + row + "neutral\n1" + row + "neutral\n");
  for (const char* name : {"MNLI/dev_matched.tsv", "MNLI/dev_mismatched.tsv"}) {
    Write(name, columns + "label2\tlabel3\tlabel4\tlabel5\tgold_label\n0" + row + n + n + n + n + "neutral\n");
  }
  const TaskSet set = Open("mnli-m,mnli-mm");
  EXPECT_EQ(set.tasks.size(), 2u);
  ASSERT_EQ(set.TrainingParts().size(), 1u);
  EXPECT_EQ(set.TrainingParts()[0].rows->size(), 2u);
}

TEST_F(TaskSetTest, WhatIsNoSetOfTasksIsRefused) {
  WriteSst2("train.tsv", {"0", "1", "1"});  // without rows held out
  testing::ExpectRefused(
      {{"no name", [] { ParseTasks(""); }, {"is missing"}},
       {"an unknown one", [] { ParseTasks("sst2"); }, {"did you mean \"sst-2\"?"}},
       {"one twice", [] { ParseTasks("cola,cola"); }, {"stands there twice"}},
       {"other labels", [] { TaskOfHead(ParseTasks("mnli-m,rte")); }, {"mnli-m and rte have other answers"}},
       {"other forms", [] { TaskOfHead(ParseTasks("cola,sts-b")); }, {"one head"}},
       {"no file", [&] { Open("rte"); }, {"has no file of rte"}},
       {"no held-out rows", [&] { Open("sst-2"); }, {"has no held-out rows with answers"}},
       {"no folder", [] { OpenTasks(ParseTasks("sst-2"), ""); }, {"is missing"}},
       {"no parts", [] { TaskMixture({}, std::nullopt, 1); }, {}},
       {"a part without rows",
        [] {
          TaskMixture({3, 0}, std::nullopt, 1);
        },
        {}}});
  EXPECT_STREQ(TaskOfHead(ParseTasks("mnli-m,mnli-mm,ax")).name, "mnli-m");
  EXPECT_STREQ(TaskOfHead(ParseTasks("rte,ax-b")).name, "rte");
  EXPECT_THROW(OpenTasks(ParseTasks("sst-2"), dir_ / "", [] { return true; }), Interrupted);
}

TEST(ConstantGuessTest, ItIsTheCommonestLabelOrPlaceOrTheMeanOfNumbers) {
  std::vector<TaskRow> rows(5);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].id = std::to_string(i);
    rows[i].labelled = true;
    rows[i].label = i % 2 == 0 ? 1 : 0;
    rows[i].number = static_cast<double>(i) + 1.5;
  }
  EXPECT_DOUBLE_EQ(MainScore(FindTask("sst-2"), BestConstantAnswer(FindTask("sst-2"), rows).measures), 0.6);
  for (const auto& [task, answer] : {std::pair("sst-2", 1.0), {"sts-b", 3.5}, {"copa", 1.0}}) {
    if (task == std::string("copa")) {
      for (TaskRow& row : rows) row.choices = {{"b", "0"}, {"c", "1"}};
    }
    const std::vector<TaskPrediction> guesses = BestConstantAnswer(FindTask(task), rows).predictions;
    ASSERT_EQ(guesses.size(), 5u);
    for (const TaskPrediction& one : guesses) EXPECT_EQ(std::stod(one.answer), answer) << task;
  }
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

// Without a cap a pass has every row once. With one it takes as many rows of a large task, all of them in turn: five
// passes of four have each of ten rows twice.
TEST(TaskMixtureTest, APassHasEveryRowOnceOrAsManyAsTheCap) {
  const TaskMixture all({5, 11, 1}, std::nullopt, 3), capped({3, 10}, 4, 3);
  EXPECT_EQ(all.size(), 17);
  EXPECT_EQ(capped.size(), 7);
  const auto expect = [](const std::map<int64_t, int>& counts, size_t rows, int times) {
    EXPECT_EQ(counts.size(), rows);
    for (const auto& [row, count] : counts) EXPECT_EQ(count, times) << row;
  };
  const size_t sizes[] = {5, 11, 1};
  for (int64_t pass = 0; pass < 5; ++pass) {
    const auto counts = Counts(all, 3, 17 * pass, 17 * (pass + 1));
    for (size_t task = 0; task < 3; ++task) expect(counts[task], sizes[task], 1);
    expect(Counts(capped, 2, 7 * pass, 7 * (pass + 1))[1], 4, 1);
  }
  expect(Counts(capped, 2, 0, 35)[0], 3, 5);
  expect(Counts(capped, 2, 0, 35)[1], 10, 2);
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

}  // namespace crosstalk::task_set_test
