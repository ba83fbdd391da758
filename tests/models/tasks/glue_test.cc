

#include "crosstalk/models/tasks/text_to_text.h"
#include "tests/support/task_cases.h"

namespace crosstalk::glue_test {

class GlueTest : public TaskFileTest {
 protected:
  GlueTest() : TaskFileTest("file.tsv") {}
};

// Columns by task: a byte order mark, questions that are empty, annotators, the diagnostic with and without labels.
TEST_F(GlueTest, EachFileBecomesItsRows) {
  const std::string mnli =
      "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t"
      "sentence2_parse\tsentence1\tsentence2";
  const std::string row = "\t1\t1n\tfiction\t( a )\t( b )\t(R a)\t(R b)\tA.\tB.";
  ExpectRows({
      {"cola", kTrain, "gj04\t1\t\tWe won't \"buy\" this.\nbc01\t0\t*\tIt it rains.\n",
       "0 | We won't \"buy\" this. | cola sentence: We won't \"buy\" this. | = acceptable | 1\n"
       "1 | It it rains. | cola sentence: It it rains. | = unacceptable | 0\n"},
      {"cola", kTest, "index\tsentence\n7\tBill whistled.\n",
       "7 | Bill whistled. | cola sentence: Bill whistled. | = <unk> | ?\n"},
      {"mrpc", kTrain, "\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t70\t71\tHe \" no .\tNo .\r\n",
       "0 | He \" no . | No . | mrpc sentence1: He \" no . sentence2: No . | = equivalent | 1\n"},
      {"qqp", kDev,
       "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n133\t213\t214\tHow is it?\tHow was "
       "it?\t1\n3\t1\t2\t\tWhat?\t0\n",
       "133 | How is it? | How was it? | qqp question1: How is it? question2: How was it? | = duplicate | 1\n"
       "3 |  | What? | qqp question1:  question2: What? | = not_duplicate | 0\n"},
      {"qqp", kTest, "id\tquestion1\tquestion2\n0\ta\tb\n",
       "0 | a | b | qqp question1: a question2: b | = <unk> | ?\n"},
      {"mnli-m", kTrain, mnli + "\tlabel1\tgold_label\n0" + row + "\tneutral\tneutral\n",
       "0 | A. | B. | mnli premise: A. hypothesis: B. | = neutral | 1\n"},
      {"mnli-mm", kDev,
       mnli + "\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label\n9" + row +
           "\tneutral\tneutral\tentailment\tneutral\tneutral\tcontradiction\n",
       "9 | A. | B. | mnli premise: A. hypothesis: B. | = contradiction | 2\n"},
      {"mnli-m", kTest, mnli + "\n0" + row + "\n", "0 | A. | B. | mnli premise: A. hypothesis: B. | = <unk> | ?\n"},
      {"ax", kTest, "index\tsentence1\tsentence2\n0\tA.\tB.\n",
       "0 | A. | B. | mnli premise: A. hypothesis: B. | = <unk> | ?\n"},
      {"ax", kTest,
       "Lexical Semantics\tPredicate-Argument Structure\tLogic\tKnowledge\tDomain\tPremise\tHypothesis\tLabel\r\n"
       "\t\tNegation\t\tNews\tA.\tB.\tcontradiction\r\n",
       "0 | A. | B. | mnli premise: A. hypothesis: B. | = contradiction | 2\n"},
      {"sts-b", kDev,
       "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
       "0\tmain\tMSR\t2012\t1\tnone\tnone\tA.\tB.\t3.750\n",
       "0 | A. | B. | stsb sentence1: A. sentence2: B. | = 3.8 | 3.75\n"},
  });
  EXPECT_EQ(Read("sst-2", kDev, "sentence\tlabel\na\t1\n")[0].source, "file.tsv, line 2");
}

TEST_F(GlueTest, SimilaritiesAreRoundedToFifthsHalfToEven) {
  // tasks.md's published examples, and halves, of which float knows some exactly.
  const std::map<double, std::string> texts = {{1.66, "1.6"}, {2.8, "2.8"}, {0, "0.0"},   {5, "5.0"},   {0.1, "0.0"},
                                               {0.3, "0.4"},  {0.5, "0.4"}, {1.5, "1.6"}, {3.7, "3.6"}, {4.91, "5.0"}};
  for (const auto& [score, text] : texts) EXPECT_EQ(SimilarityText(score), text) << score;
}

TEST_F(GlueTest, WordsThatAreNoAnswerStayAsTheyAre) {
  const auto answer = [](const char* task, const char* text) {
    return FindTask(task).answer_of_text(FindTask(task), TaskRow(), text);
  };
  EXPECT_EQ(answer("cola", " acceptable\n"), "1");
  EXPECT_EQ(answer("cola", "Acceptable"), "Acceptable");
  EXPECT_EQ(answer("mnli-m", "neutral"), "neutral");
  EXPECT_EQ(answer("wnli", "entailment"), "1");
  EXPECT_EQ(answer("sts-b", " 3.4 "), "3.4");
  EXPECT_EQ(answer("sts-b", "nan"), "nan");
  EXPECT_EQ(answer("sts-b", "3.4 or so"), "3.4 or so");
}

TEST_F(GlueTest, ABrokenRowIsNamedByFileAndLine) {
  const std::string header = "index\tsentence1\tsentence2\tlabel\n", good = "0\ta\tb\tentailment\n";
  Bytes rte = {
      {"a column too few", header + good + "1\ta\tb\n", {"file.tsv: line 3: 3 columns, not 4"}},
      {"two such rows", header + "1\ta\n" + good + "\n", {"lines 2, 4: 2 columns in line 2, not 4"}},
      {"a label", header + good + "1\ta\tb\tmaybe\n", {"line 3: the label \"maybe\""}},
      {"an id twice", header + good + good, {"line 3: the id \"0\" stands at file.tsv, line 2"}},
      {"no index", header + "x\ta\tb\tentailment\n", {"the index \"x\" is not a number"}},
      {"another header", "index\tsentence1\tlabel\n", {"line 1: the columns are"}},
      {"a test set's header", "index\tsentence1\tsentence2\n0\ta\tb\n", {"line 1"}},
      {"a header alone", header, {"there is no row"}},
      {"nothing", "", {"empty"}},
      {"no UTF-8", header + "0\t\xFF\tb\tentailment\n", {"line 2: byte"}},
      {"a NUL", header + std::string("0\t\0\tb\n", 7), {"NUL"}},
  };
  for (const char* id : {"", "-1", "01", "1.0", "9999999999999999999"}) {
    rte.push_back({id, header + id + "\ta\tb\tentailment\n", {"line 2: the index"}});
  }
  ExpectRefused("rte", kDev, rte);
  ExpectRefused("sst-2", kDev, {{"a class", "sentence\tlabel\na\t2\n", {"the label \"2\" is none of 0, 1"}}});
  Bytes scores;
  for (const char* bad : {"5.1", "-1", "", "nan", "3,4", "1e999"}) {
    scores.push_back({bad,
                      "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
                      "0\ta\tb\tc\td\te\tf\tg\th\t" +
                          std::string(bad) + "\n",
                      {"line 2"}});
  }
  ExpectRefused("sts-b", kDev, scores);
}

TEST_F(GlueTest, PredictionsAreWrittenInTheOfficialFormAndReadAgain) {
  const auto rows = Read("rte", kTest, "index\tsentence1\tsentence2\n0\ta\tb\n1\tc\td\n");
  const TaskType& type = FindTask("rte");
  const auto files = type.write(type, rows, SomePredictions(type, rows), kTest);
  ASSERT_FALSE(files.empty());
  EXPECT_EQ(files[0].name, "RTE.tsv");
  EXPECT_EQ(files[0].contents, "index\tprediction\n0\tentailment\n1\tnot_entailment\n");
  ExpectRoundTrip(type, rows, SomePredictions(type, rows), directory_.path());

  const std::string header = "index\tprediction\n";
  ExpectPredictionsRefused(
      "rte", rows,
      {{"an id twice", header + "0\tentailment\n0\tentailment\n", {"line 3: a second prediction for the id \"0\""}},
       {"an id of no row", header + "5\tentailment\n", {"line 2: the id \"5\" is not one of the scored rows"}},
       {"no header", "0\tentailment\n", {"not the header"}},
       {"a column too few", header + "0\n", {"line 2: 1 column, not 2"}}});
  // Words outside the labels are predictions too, and a missing one is for the score to treat.
  const auto read = ReadPredictions("rte", header + "1\twords\n", rows);
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].answer, "words");
}

TEST_F(GlueTest, ATasksFilesAreFoundInItsBenchmarksFolderAndInItsOwn) {
  WriteTaskFile(directory_.path(), "SST-2/train.tsv", "x");
  const TaskType& type = FindTask("sst-2");
  EXPECT_EQ(FindTaskFile(type, directory_.path(), kTrain), directory_ / "SST-2/train.tsv");
  EXPECT_EQ(FindTaskFile(type, directory_ / "SST-2", kTrain), directory_ / "SST-2/train.tsv");
  EXPECT_EQ(FindTaskFile(type, directory_ / "SST-2/", kTrain), directory_ / "SST-2//train.tsv");
  EXPECT_EQ(FindTaskFile(type, directory_.path(), kDev), std::nullopt);
  EXPECT_EQ(FindTaskFile(FindTask("rte"), directory_ / "SST-2", kTrain), std::nullopt) << "another task's folder";
  testing::ExpectError([] { FindTask("sst2"); }, ErrorKind::kUsage, {"did you mean \"sst-2\"?"});
}

TEST_F(GlueTest, TheOriginalFilesAreReadWhole) {
  const auto folder = RealTasks("glue");
  if (!folder) GTEST_SKIP() << "set CROSSTALK_DATA to the folder of real data";
  const std::map<std::string, std::vector<size_t>> counts = {
      {"cola", {8551, 1043, 1063}},  {"sst-2", {67349, 872, 1821}}, {"mrpc", {3667, 408, 1725}},
      {"sts-b", {5749, 1500, 1379}}, {"qnli", {0, 5463, 5463}},     {"rte", {2490, 277, 3000}},
      {"wnli", {635, 71, 146}},      {"ax", {0, 0, 1104}}};
  for (const auto& [task, rows] : counts) {
    const TaskType& type = FindTask(task);
    for (const TaskSplit split : {kTrain, kDev, kTest}) {
      const auto path = FindTaskFile(type, *folder, split);
      const size_t count = rows[static_cast<size_t>(split)];
      ASSERT_EQ(path.has_value(), count > 0) << task;
      if (path) ExpectWholeFile(type, *path, split, count, directory_.path());
    }
  }
}

// The built-in task has the same form.

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

}  // namespace crosstalk::glue_test
