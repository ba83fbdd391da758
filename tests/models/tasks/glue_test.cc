#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "crosstalk/models/tasks/task.h"
#include "crosstalk/models/tasks/text_to_text.h"
#include "tests/support/messages.h"
#include "tests/support/task_cases.h"

namespace crosstalk {
namespace glue_test {

using testing::MessageOf;
using Strings = std::vector<std::string>;

class GlueTest : public TaskFileTest {
 protected:
  GlueTest() : TaskFileTest("file.tsv") {}
};

TEST_F(GlueTest, ColaHasItsSentenceInColumnFour) {
  const auto rows = Read("cola", TaskSplit::kTrain, "gj04\t1\t\tWe won't \"buy\" this.\nbc01\t0\t*\tIt it rains.\n");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].source, "file.tsv, line 1");
  EXPECT_EQ(rows[0].id, "0");
  EXPECT_EQ(rows[0].first, "We won't \"buy\" this.");
  EXPECT_FALSE(rows[0].second);
  EXPECT_EQ(rows[0].input, "cola sentence: We won't \"buy\" this.");
  EXPECT_EQ(rows[0].targets, Strings{"acceptable"});
  EXPECT_EQ(rows[1].targets, Strings{"unacceptable"});
  EXPECT_EQ(rows[1].label, 0);
  const auto test = Read("cola", TaskSplit::kTest, "index\tsentence\n7\tBill whistled.\n");
  EXPECT_EQ(test[0].id, "7");
  EXPECT_FALSE(test[0].labelled);
  EXPECT_EQ(test[0].targets, Strings{"<unk>"});
}

TEST_F(GlueTest, TheByteOrderMarkOfMrpcIsNoPartOfItsHeader) {
  const auto rows =
      Read("mrpc", TaskSplit::kTrain,
           "\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t70\t71\tHe said \" no .\tNo .\r\n");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].input, "mrpc sentence1: He said \" no . sentence2: No .");
  EXPECT_EQ(rows[0].targets, Strings{"equivalent"});
  EXPECT_EQ(rows[0].second, "No .");
}

TEST_F(GlueTest, QqpAsksTwoQuestionsOfWhichOneMayBeEmpty) {
  const auto rows = Read("qqp", TaskSplit::kDev,
                         "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
                         "133273\t213221\t213222\tHow is it?\tHow was it?\t1\n363362\t1\t2\t\tWhat?\t0\n");
  EXPECT_EQ(rows[0].id, "133273");
  EXPECT_EQ(rows[0].input, "qqp question1: How is it? question2: How was it?");
  EXPECT_EQ(rows[0].targets, Strings{"duplicate"});
  EXPECT_EQ(rows[1].first, "");
  EXPECT_EQ(rows[1].targets, Strings{"not_duplicate"});
  EXPECT_EQ(Read("qqp", TaskSplit::kTest, "id\tquestion1\tquestion2\n0\ta\tb\n")[0].second, "b");
}

TEST_F(GlueTest, MnliHasOneAnnotatorInTrainingAndFiveInItsDevSets) {
  const std::string shared =
      "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t"
      "sentence2_parse\tsentence1\tsentence2";
  const std::string row = "\t1\t1n\tfiction\t( a )\t( b )\t(R a)\t(R b)\tA premise.\tA hypothesis.";
  const auto train =
      Read("mnli-m", TaskSplit::kTrain, shared + "\tlabel1\tgold_label\n0" + row + "\tneutral\tneutral\n");
  EXPECT_EQ(train[0].input, "mnli premise: A premise. hypothesis: A hypothesis.");
  EXPECT_EQ(train[0].targets, Strings{"neutral"});
  EXPECT_EQ(train[0].label, 1);
  const auto dev = Read("mnli-mm", TaskSplit::kDev,
                        shared + "\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label\n9" + row +
                            "\tneutral\tneutral\tentailment\tneutral\tneutral\tcontradiction\n");
  EXPECT_EQ(dev[0].id, "9");
  EXPECT_EQ(dev[0].label, 2);
  EXPECT_FALSE(Read("mnli-m", TaskSplit::kTest, shared + "\n0" + row + "\n")[0].labelled);
}

TEST_F(GlueTest, TheDiagnosticIsAskedAsMnliWithOrWithoutLabels) {
  EXPECT_EQ(Read("ax", TaskSplit::kTest, "index\tsentence1\tsentence2\n0\tA.\tB.\n")[0].input,
            "mnli premise: A. hypothesis: B.");
  const auto full = Read("ax", TaskSplit::kTest,
                         "Lexical Semantics\tPredicate-Argument Structure\tLogic\tKnowledge\tDomain\tPremise\t"
                         "Hypothesis\tLabel\r\n\t\tNegation\t\tNews\tA.\tB.\tcontradiction\r\n");
  EXPECT_EQ(full[0].targets, Strings{"contradiction"});
  EXPECT_TRUE(full[0].labelled);
}

TEST_F(GlueTest, SimilaritiesAreRoundedToFifthsHalfToEven) {
  // tasks.md's published examples, and halves, of which float knows some exactly.
  const std::map<double, std::string> texts = {{1.66, "1.6"}, {2.8, "2.8"}, {0, "0.0"},   {5, "5.0"},   {0.1, "0.0"},
                                               {0.3, "0.4"},  {0.5, "0.4"}, {1.5, "1.6"}, {3.7, "3.6"}, {4.91, "5.0"}};
  for (const auto& [score, text] : texts) EXPECT_EQ(SimilarityText(score), text) << score;
  const auto rows = Read("sts-b", TaskSplit::kDev,
                         "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
                         "0\tmain\tMSR\t2012\t1\tnone\tnone\tA.\tB.\t3.750\n");
  EXPECT_EQ(rows[0].number, 3.75);
  EXPECT_EQ(rows[0].input, "stsb sentence1: A. sentence2: B.");
  EXPECT_EQ(rows[0].targets, Strings{"3.8"});
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
  ExpectRefused("rte", TaskSplit::kDev, header + good + "1\ta\tb\n", "file.tsv: line 3: 3 columns, not 4");
  const std::string two = Refusal("rte", TaskSplit::kDev, header + "1\ta\n" + good + "\n");
  EXPECT_NE(two.find("lines 2, 4: 2 columns in line 2, not 4"), std::string::npos) << two;
  ExpectRefused("rte", TaskSplit::kDev, header + good + "1\ta\tb\tmaybe\n", "line 3: the label \"maybe\"");
  ExpectRefused("rte", TaskSplit::kDev, header + good + good, "line 3: the id \"0\" stands at file.tsv, line 2");
  ExpectRefused("rte", TaskSplit::kDev, header + "x\ta\tb\tentailment\n", "the index \"x\" is not a number");
  for (const char* id : {"", "-1", "01", "1.0", "9999999999999999999"}) {
    ExpectRefused("rte", TaskSplit::kDev, header + id + "\ta\tb\tentailment\n", "line 2: the index");
  }
  ExpectRefused("rte", TaskSplit::kDev, "index\tsentence1\tlabel\n", "line 1: the columns are");
  ExpectRefused("rte", TaskSplit::kDev, "index\tsentence1\tsentence2\n0\ta\tb\n", "line 1");
  ExpectRefused("rte", TaskSplit::kDev, header, "there is no row");
  ExpectRefused("rte", TaskSplit::kDev, "", "empty");
  ExpectRefused("rte", TaskSplit::kDev, header + "0\t\xFF\tb\tentailment\n", "line 2: byte");
  ExpectRefused("rte", TaskSplit::kDev, header + std::string("0\t\0\tb\n", 7), "NUL");
  ExpectRefused("sst-2", TaskSplit::kDev, "sentence\tlabel\na\t2\n", "the label \"2\" is none of 0, 1");
  const std::string score = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n";
  for (const char* bad : {"5.1", "-1", "", "nan", "3,4", "1e999"}) {
    ExpectRefused("sts-b", TaskSplit::kDev, score + "0\ta\tb\tc\td\te\tf\tg\th\t" + bad + "\n", "line 2");
  }
}

TEST_F(GlueTest, PredictionsAreWrittenInTheOfficialFormAndReadAgain) {
  const auto rows = Read("rte", TaskSplit::kTest, "index\tsentence1\tsentence2\n0\ta\tb\n1\tc\td\n");
  const TaskType& type = FindTask("rte");
  const auto files = type.write(type, rows, SomePredictions(type, rows), TaskSplit::kTest);
  ASSERT_FALSE(files.empty());
  EXPECT_EQ(files[0].name, "RTE.tsv");
  EXPECT_EQ(files[0].contents, "index\tprediction\n0\tentailment\n1\tnot_entailment\n");
  ExpectRoundTrip(type, rows, SomePredictions(type, rows), directory_.path());

  const auto refusal = [&](std::string_view bytes) {
    const std::string path = WriteTaskFile(directory_.path(), "p.tsv", bytes);
    return MessageOf([&] { type.read_predictions(type, path, rows); }, ErrorKind::kData);
  };
  const std::string header = "index\tprediction\n";
  EXPECT_NE(refusal(header + "0\tentailment\n0\tentailment\n").find("line 3: a second prediction for the id \"0\""),
            std::string::npos);
  EXPECT_NE(refusal(header + "5\tentailment\n").find("line 2: the id \"5\" is not one of the scored rows"),
            std::string::npos);
  EXPECT_NE(refusal("0\tentailment\n").find("not the header"), std::string::npos);
  EXPECT_NE(refusal(header + "0\n").find("line 2: 1 column, not 2"), std::string::npos);
  // Words outside the labels are predictions too, and a missing one is for the score to treat.
  const auto read = type.read_predictions(type, WriteTaskFile(directory_.path(), "p.tsv", header + "1\twords\n"), rows);
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].answer, "words");
}

TEST_F(GlueTest, ATasksFilesAreFoundInItsBenchmarksFolderAndInItsOwn) {
  WriteTaskFile(directory_.path(), "SST-2/train.tsv", "x");
  const TaskType& type = FindTask("sst-2");
  EXPECT_EQ(FindTaskFile(type, directory_.path(), TaskSplit::kTrain), directory_ / "SST-2/train.tsv");
  EXPECT_EQ(FindTaskFile(type, directory_ / "SST-2", TaskSplit::kTrain), directory_ / "SST-2/train.tsv");
  EXPECT_EQ(FindTaskFile(type, directory_ / "SST-2/", TaskSplit::kTrain), directory_ / "SST-2//train.tsv");
  EXPECT_EQ(FindTaskFile(type, directory_.path(), TaskSplit::kDev), std::nullopt);
  EXPECT_EQ(FindTaskFile(FindTask("rte"), directory_ / "SST-2", TaskSplit::kTrain), std::nullopt)
      << "another task's folder";
  EXPECT_NE(MessageOf([] { FindTask("sst2"); }).find("did you mean \"sst-2\"?"), std::string::npos);
}

TEST_F(GlueTest, TheOriginalFilesAreReadWhole) {
  const auto folder = RealTasks("glue");
  if (!folder) GTEST_SKIP() << "set CROSSTALK_DATA to the folder of real data";
  struct Case {
    const char* task;
    size_t train, dev, test;
  };
  for (const Case& expected : std::vector<Case>{{"cola", 8551, 1043, 1063},
                                                {"sst-2", 67349, 872, 1821},
                                                {"mrpc", 3667, 408, 1725},
                                                {"sts-b", 5749, 1500, 1379},
                                                {"qnli", 0, 5463, 5463},
                                                {"rte", 2490, 277, 3000},
                                                {"wnli", 635, 71, 146},
                                                {"ax", 0, 0, 1104}}) {
    const TaskType& type = FindTask(expected.task);
    const auto check = [&](TaskSplit split, size_t count) {
      const auto path = FindTaskFile(type, *folder, split);
      ASSERT_EQ(path.has_value(), count > 0) << expected.task;
      if (!path) return;
      const auto rows = type.read(type, *path, split);
      EXPECT_EQ(rows.size(), count) << *path;
      for (const TaskRow& row : rows) {
        ASSERT_EQ(row.labelled, split != TaskSplit::kTest) << *path << ", " << row.id;
        ASSERT_EQ(row.targets.size(), 1u);
      }
      ExpectTargetsMeanLabels(type, rows);
      ExpectRoundTrip(type, rows, SomePredictions(type, rows), directory_.path());
    };
    check(TaskSplit::kTrain, expected.train);
    check(TaskSplit::kDev, expected.dev);
    check(TaskSplit::kTest, expected.test);
  }
}

}  // namespace glue_test
}  // namespace crosstalk
