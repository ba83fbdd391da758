#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "crosstalk/models/tasks/benchmarks.h"
#include "crosstalk/models/tasks/task.h"
#include "tests/support/messages.h"
#include "tests/support/task_cases.h"

namespace crosstalk {
namespace superglue_test {

using testing::Contains;
using testing::MessageOf;
using Strings = std::vector<std::string>;

class SuperGlueTest : public TaskFileTest {
 protected:
  SuperGlueTest() : TaskFileTest("file.jsonl") {}

  std::string Written(const char* task, const std::vector<TaskRow>& rows) {
    const TaskType& type = FindTask(task);
    ExpectRoundTrip(type, rows, SomePredictions(type, rows), directory_.path());
    return type.write(type, rows, SomePredictions(type, rows), TaskSplit::kDev)[0].contents;
  }
};

TEST_F(SuperGlueTest, BoolQIsAQuestionAndAPassage) {
  const auto rows = Read("boolq", TaskSplit::kDev,
                         R"({"question": "is it", "passage": "It is.", "idx": 7, "label": true})"
                         "\n"
                         R"({"question": "was it", "passage": "No.", "idx": 2, "label": 0})");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].source, "file.jsonl, line 1");
  EXPECT_EQ(rows[0].id, "7");
  EXPECT_EQ(rows[0].first, "is it");
  EXPECT_EQ(rows[0].second, "It is.");
  EXPECT_EQ(rows[0].input, "boolq passage: It is. question: is it");
  EXPECT_EQ(rows[0].targets, Strings{"True"});
  EXPECT_EQ(rows[1].label, 0);
  EXPECT_EQ(Written("boolq", rows), "{\"idx\": 7, \"label\": \"false\"}\n{\"idx\": 2, \"label\": \"true\"}\n");
  // Google's file has no idx, and calls the label the answer.
  const auto google = Read("boolq", TaskSplit::kTrain, R"({"question": "q", "answer": false, "passage": "p"})");
  EXPECT_EQ(google[0].id, "0");
  EXPECT_EQ(google[0].targets, Strings{"False"});
}

TEST_F(SuperGlueTest, CbHasWordsOrTheirPlaces) {
  for (const char* label : {"\"contradiction\"", "1"}) {
    const auto rows = Read("cb", TaskSplit::kDev,
                           std::string(R"({"premise": "A.", "hypothesis": "B", "idx": 0, "label": )") + label + "}");
    EXPECT_EQ(rows[0].input, "cb hypothesis: B premise: A.");
    EXPECT_EQ(rows[0].first, "A.");
    EXPECT_EQ(rows[0].targets, Strings{"contradiction"});
    EXPECT_EQ(Written("cb", rows), "{\"idx\": 0, \"label\": \"entailment\"}\n");
  }
  const std::string unlabelled = R"({"premise": "A.", "hypothesis": "B", "idx": 0, "label": -1})";
  const auto test = Read("cb", TaskSplit::kTest, unlabelled);
  EXPECT_FALSE(test[0].labelled);
  EXPECT_EQ(test[0].targets, Strings{"<unk>"});
  ExpectRefused("cb", TaskSplit::kDev, unlabelled, "file.jsonl: line 1: label: is -1");
}

TEST_F(SuperGlueTest, CopaAsksForTheCauseOrTheEffect) {
  const auto rows = Read("copa", TaskSplit::kDev,
                         R"({"premise": "It rained.", "choice1": "Dry.", "choice2": "Wet.", "question": "effect",)"
                         R"( "label": 1, "idx": 3})");
  EXPECT_EQ(rows[0].input, "copa choice1: Dry. choice2: Wet. premise: It rained. question: effect");
  EXPECT_EQ(rows[0].targets, Strings{"choice2"});
  ASSERT_EQ(rows[0].choices.size(), 2u);
  EXPECT_EQ(rows[0].first, "It rained. What happened as a RESULT?");
  EXPECT_EQ(rows[0].choices[1].second, "Wet.");
  EXPECT_EQ(FindTask("copa").answer_of_text(FindTask("copa"), rows[0], " choice2"), "1");
  EXPECT_EQ(Written("copa", rows), "{\"idx\": 3, \"label\": 0}\n");
}

TEST_F(SuperGlueTest, MultiRcHasARowForEachAnswer) {
  const auto rows =
      Read("multirc", TaskSplit::kDev,
           R"({"idx": 5, "version": 1.1, "passage": {"text": "<b>Sent 1: </b>One.<br>Two.", "questions": [)"
           R"({"question": "How?", "idx": 8, "answers": [{"text": "So", "idx": 30, "label": 0},)"
           R"( {"text": "Thus", "idx": 31, "label": 1}]},)"
           R"( {"question": "Why?", "idx": 9, "answers": [{"text": "Hm", "idx": 32, "label": 1}]}]}})");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1].id, "5/8/31");
  EXPECT_EQ(rows[1].group, "5/8");
  EXPECT_EQ(rows[1].input, "multirc question: How? answer: Thus paragraph: Sent 1: One. Two.");
  EXPECT_EQ(rows[1].first, "Sent 1: One. Two.");
  EXPECT_EQ(rows[1].second, "How? Thus");
  EXPECT_EQ(rows[1].targets, Strings{"True"});
  EXPECT_EQ(Written("multirc", rows),
            R"({"idx": 5, "passage": {"questions": [{"idx": 8, "answers": [{"idx": 30, "label": 0}, )"
            R"({"idx": 31, "label": 1}]}, {"idx": 9, "answers": [{"idx": 32, "label": 0}]}]}})"
            "\n");
}

constexpr const char* kRecord =
    R"({"source": "x", "idx": 4, "passage": {"text": "Zoë met Al.\n@highlight\nAl left\n@highlight\nZoë stayed",)"
    R"( "entities": [{"start": 0, "end": 2}, {"start": 8, "end": 9}, {"start": 23, "end": 24}]},)"
    R"( "qas": [{"idx": 11, "query": "@placeholder went.", "answers": [{"start": 8, "end": 9, "text": "Al"},)"
    R"( {"start": 23, "end": 24, "text": "Al"}, {"start": 0, "end": 2, "text": "Zoë"}]}]})";

TEST_F(SuperGlueTest, RecordListsEachEntityOnceAndTrainsOnEachAnswer) {
  const auto dev = Read("record", TaskSplit::kDev, kRecord);
  ASSERT_EQ(dev.size(), 1u);
  EXPECT_EQ(dev[0].id, "11");
  EXPECT_EQ(dev[0].input,
            "record query: @placeholder went. entities: Al, Zoë passage: Zoë met Al. Al left. Zoë stayed");
  EXPECT_EQ(dev[0].targets, (Strings{"Al", "Zoë"}));
  ASSERT_EQ(dev[0].choices.size(), 2u);
  EXPECT_EQ(dev[0].first, "Zoë met Al. Al left. Zoë stayed");
  EXPECT_EQ(dev[0].choices[1].second, "Zoë went.");
  EXPECT_EQ(dev[0].choices[1].answer, "Zoë");
  EXPECT_EQ(Written("record", dev), "{\"idx\": 11, \"label\": \"Al\"}\n");
  const auto train = Read("record", TaskSplit::kTrain, kRecord);
  ASSERT_EQ(train.size(), 2u);
  EXPECT_EQ(train[0].label, 0);
  EXPECT_EQ(train[1].label, 1);
  EXPECT_EQ(train[1].targets, Strings{"Zoë"});
  EXPECT_EQ(train[1].answers.size(), 2u);
}

TEST_F(SuperGlueTest, RteIsReadAndWrittenInBothBenchmarksForms) {
  const auto rows =
      Read("rte", TaskSplit::kDev, R"({"premise": "A.", "hypothesis": "B.", "label": "not_entailment", "idx": 0})");
  EXPECT_EQ(rows[0].input, "rte hypothesis: B. premise: A.");
  EXPECT_EQ(Written("rte", rows), "index\tprediction\n0\tentailment\n");
  const auto files = FindTask("rte").write(FindTask("rte"), rows, {{"0", "entailment", {}}}, TaskSplit::kDev);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[1].name, "RTE.jsonl");
  EXPECT_EQ(files[1].contents, "{\"idx\": 0, \"label\": \"entailment\"}\n");
}

TEST_F(SuperGlueTest, TheDiagnosticsAreAskedAsRte) {
  const auto official = Read("ax-b", TaskSplit::kTest,
                             R"({"sentence1": "A.", "sentence2": "B.", "idx": 0, "label": "entailment", "logic": ""})");
  EXPECT_EQ(official[0].input, "rte hypothesis: B. premise: A.");
  EXPECT_EQ(official[0].targets, Strings{"entailment"});
  const auto full = ReadTask("ax-b",
                             WriteTaskFile(directory_.path(), "full.tsv",
                                           "Lexical Semantics\tPredicate-Argument Structure\tLogic\tKnowledge\tDomain\t"
                                           "Premise\tHypothesis\tLabel\n\t\t\t\t\tA.\tB.\tneutral\n"),
                             TaskSplit::kTest);
  EXPECT_EQ(full[0].input, "rte hypothesis: B. premise: A.");
  EXPECT_EQ(full[0].targets, Strings{"not_entailment"});
  const std::string pair = R"({"premise": "A.", "hypothesis": "B.", "label": "entailment", "pair_id": 1, "idx": )";
  const auto gender = Read("ax-g", TaskSplit::kTest, pair + "0}\n" + pair + "1}\n" + pair + "2}");
  EXPECT_EQ(gender[0].group, gender[1].group);
  EXPECT_NE(gender[1].group, gender[2].group);
}

TEST_F(SuperGlueTest, WicTellsAnEncoderTheWord) {
  const std::string row =
      R"({"word": "feel", "sentence1": "You féél.", "sentence2": "She felt.", "idx": 1, "label": true, "start1": 4,)";
  const auto rows = Read("wic", TaskSplit::kTrain, row + R"( "end1": 8, "start2": 4, "end2": 8})");
  EXPECT_EQ(rows[0].input, "wic sentence1: You féél. sentence2: She felt. word: feel");
  EXPECT_EQ(rows[0].first, "feel: You féél.");
  ExpectRefused("wic", TaskSplit::kTrain, row + R"( "end1": 10})", "line 1: end1");
  ExpectRefused("wic", TaskSplit::kTrain, row + R"( "end1": 3})", "line 1: end1");
}

std::string Wsc(const std::string& text, int index, const std::string& span, const std::string& more) {
  return R"({"text": ")" + text + R"(", "target": {"span1_text": ")" + span +
         R"(", "span1_index": 1, "span2_text": "it", "span2_index": )" + std::to_string(index) + R"(}, "idx": 0)" +
         more + "}";
}

TEST_F(SuperGlueTest, WscMarksThePronounAndIsAnsweredByTheReferent) {
  const auto yes = Read("wsc", TaskSplit::kTrain, Wsc("Then the cat ate it .", 4, "The cat", R"(, "label": true)"));
  EXPECT_EQ(yes[0].input, "wsc: Then the cat ate *it* .");
  EXPECT_EQ(yes[0].first, "Then the cat ate *it* .");
  EXPECT_EQ(yes[0].second, "the cat") << "as it stands in the text";
  EXPECT_EQ(yes[0].targets, Strings{"the cat"});
  const auto no = Read("wsc", TaskSplit::kTrain, Wsc("Then the cat ate it .", 4, "the cat", R"(, "label": false)"));
  EXPECT_TRUE(no[0].targets.empty()) << "not trained on";
  const TaskType& type = FindTask("wsc");
  EXPECT_EQ(type.answer_of_text(type, yes[0], "cat"), "True");
  EXPECT_EQ(type.answer_of_text(type, yes[0], "mouse"), "False");
  EXPECT_EQ(type.answer_of_text(type, yes[0], " the "), " the ") << "says nothing";
  EXPECT_EQ(Written("wsc", yes), "{\"idx\": 0, \"label\": \"False\"}\n");
  // The original files have two such texts.
  EXPECT_EQ(Read("wsc", TaskSplit::kTest, Wsc("She said: \\\"Bake it,\\\" he said. ", 3, "She", ""))[0].input,
            "wsc: She said: \"Bake *it* ,\" he said.");
  EXPECT_EQ(Read("wsc", TaskSplit::kTest, Wsc("They want to use it , now", 3, "They", ""))[0].input,
            "wsc: They want to use *it* , now");
  ExpectRefused("wsc", TaskSplit::kTest, Wsc("No such word", 1, "No", ""), "span2_index: the text has no word \"it\"");
  ExpectRefused("wsc", TaskSplit::kTest, Wsc("it", 9, "No", ""), "span2_index: 9 is no word");
}

TEST_F(SuperGlueTest, WordsNameAReferentAsPublished) {
  EXPECT_EQ(NamesReferent("the cat", "cat"), true);
  EXPECT_EQ(NamesReferent("a potato", "my potato"), true);
  EXPECT_EQ(NamesReferent("fuzzy bunny", "fuzzy hungry bunny"), true);
  EXPECT_EQ(NamesReferent("Bob's hat", "Bob"), false);
  EXPECT_EQ(NamesReferent("Bob", "Bob's hat"), false);
  EXPECT_EQ(NamesReferent("hat", "Bob's hat"), false) << "all words, but no apostrophe";
  EXPECT_EQ(NamesReferent("potato", "turnip"), false);
  EXPECT_EQ(NamesReferent("  BOB ", "bob"), true);
  EXPECT_EQ(NamesReferent("", "bob"), std::nullopt);
}

TEST_F(SuperGlueTest, ABrokenLineIsNamedWithItsPlaceInIt) {
  const std::string good = R"({"question": "q", "passage": "p", "idx": 0, "label": true})";
  const auto refusal = [&](const std::string& second) {
    return Refusal("boolq", TaskSplit::kDev, good + "\n" + second);
  };
  EXPECT_TRUE(Contains(refusal(good), "line 2: the id \"0\" stands at file.jsonl, line 1 already"));
  EXPECT_TRUE(Contains(refusal("[]"), "file.jsonl: line 2: must be an object, but is an array"));
  EXPECT_TRUE(Contains(refusal("{\"question\": \"q\""), "file.jsonl: line 2: byte"));
  EXPECT_TRUE(Contains(refusal(R"({"question": "q", "question": "q"})"), "line 2: "));
  EXPECT_TRUE(Contains(refusal(R"({"question": 3, "passage": "p", "idx": 1, "label": true})"),
                       "line 2: question: must be a string"));
  EXPECT_TRUE(Contains(refusal(R"({"question": "q", "passage": "p", "idx": 1})"), "line 2: label"));
  EXPECT_TRUE(Contains(refusal(R"({"question": "q", "passage": "p", "idx": 1, "label": 2})"),
                       "line 2: label: 2 is none of false, true"));
  EXPECT_TRUE(Contains(refusal(R"({"question": "q", "passage": "p", "idx": -1, "label": true})"), "line 2: idx"));
  EXPECT_TRUE(Contains(refusal(std::string(100000, '[')), "line 2: "));
  ExpectRefused("multirc", TaskSplit::kDev,
                R"({"idx": 0, "passage": {"text": "t", "questions": [{"question": "q", "answers": )"
                R"([{"text": "a", "label": 1}, {"label": 1}]}]}})",
                "line 1: passage.questions[0].answers[1]: text");
  ExpectRefused("copa", TaskSplit::kDev,
                R"({"premise": "p", "choice1": "a", "choice2": "b", "question": "why", "label": 0})",
                "question: \"why\" is neither");
  const std::string record = kRecord;
  ExpectRefused("record", TaskSplit::kDev, std::string(record).replace(record.find("\"end\": 24"), 9, "\"end\": 99"),
                "passage.entities[2]: end");
  ExpectRefused("record", TaskSplit::kDev, std::string(record).replace(record.find("@placeholder"), 12, "nothing"),
                "qas[0]: query: has no @placeholder");
}

TEST_F(SuperGlueTest, APassageInTooManyRowsIsRefused) {
  std::string line = R"({"idx": 0, "passage": {"text": ")" + std::string(100'000, 'x') +
                     R"(", "questions": [{"question": "q", "answers": [)";
  for (int i = 0; i < 5000; ++i) line += std::string(i ? "," : "") + R"({"text":"a","label":0})";
  ExpectRefused("multirc", TaskSplit::kTrain, line + "]}]}}", "stands in too many of them");
}

TEST_F(SuperGlueTest, AQueryThatWouldGrowOutOfProportionIsRefused) {
  std::string query;
  for (int i = 0; i < 20'000; ++i) query += "@placeholder ";
  ExpectRefused("record", TaskSplit::kTest,
                R"({"passage": {"text": ")" + std::string(50'000, 'x') +
                    R"(", "entities": [{"start": 0, "end": 49999}]}, "qas": [{"query": ")" + query + "\"}]}",
                "stands in too many of them");
}

TEST_F(SuperGlueTest, PredictionsOfUnknownOrDoubledIdsAreRefused) {
  const auto rows = Read("boolq", TaskSplit::kDev, R"({"question": "q", "passage": "p", "idx": 3, "label": true})");
  const TaskType& type = FindTask("boolq");
  const auto read = [&](std::string_view bytes) {
    return type.read_predictions(type, WriteTaskFile(directory_.path(), "p.jsonl", bytes), rows);
  };
  EXPECT_EQ(read(R"({"idx": 3, "label": true})")[0].answer, "true");
  EXPECT_EQ(read(R"({"idx": 3, "label": "True"})")[0].answer, "true");
  EXPECT_EQ(read(R"({"idx": 3, "label": "maybe"})")[0].answer, "maybe") << "wrong, but a prediction";
  const auto refusal = [&](std::string_view bytes) { return MessageOf([&] { read(bytes); }, ErrorKind::kData); };
  EXPECT_TRUE(
      Contains(refusal(R"({"idx": 4, "label": true})"), "p.jsonl: line 1: the id \"4\" is not one of the scored rows"));
  EXPECT_TRUE(Contains(refusal("{\"idx\": 3, \"label\": true}\n{\"idx\": 3, \"label\": true}"),
                       "p.jsonl: line 2: a second prediction for the id \"3\""));
  EXPECT_TRUE(Contains(refusal(R"({"label": true})"), "p.jsonl: line 1: idx"));
}

TEST_F(SuperGlueTest, TheOriginalFilesAreReadWhole) {
  const auto folder = RealTasks("superglue/");
  if (!folder) GTEST_SKIP() << "set CROSSTALK_DATA to the folder of real data";
  struct Case {
    const char *task, *path;
    TaskSplit split;
    size_t rows;
  };
  constexpr TaskSplit kTrain = TaskSplit::kTrain, kDev = TaskSplit::kDev, kTest = TaskSplit::kTest;
  for (const Case& expected : std::vector<Case>{{"boolq", "BoolQ/FewGLUE_32dev/train.jsonl", kTrain, 32},
                                                {"boolq", "BoolQ/FewGLUE_32dev/dev32.jsonl", kDev, 32},
                                                {"boolq", "BoolQ/hf_export/boolq_train.jsonl", kTrain, 1000},
                                                {"boolq", "BoolQ/val.jsonl", kDev, 3270},
                                                {"cb", "CB/FewGLUE_32dev/train.jsonl", kTrain, 32},
                                                {"cb", "CB/FewGLUE_32dev/dev32.jsonl", kDev, 32},
                                                {"cb", "CB/hf_export/cb_train.jsonl", kTrain, 250},
                                                {"cb", "CB/hf_export/cb_validation.jsonl", kDev, 56},
                                                {"cb", "CB/hf_export/cb_test.jsonl", kTest, 250},
                                                {"cb", "CB/val.jsonl", kDev, 56},
                                                {"copa", "COPA/FewGLUE_32dev/train.jsonl", kTrain, 32},
                                                {"copa", "COPA/FewGLUE_32dev/dev32.jsonl", kDev, 32},
                                                {"copa", "COPA/hf_export/copa_train.jsonl", kTrain, 400},
                                                {"copa", "COPA/hf_export/copa_validation.jsonl", kDev, 100},
                                                {"copa", "COPA/hf_export/copa_test.jsonl", kTest, 500},
                                                {"copa", "COPA/val.jsonl", kDev, 100},
                                                {"multirc", "MultiRC/FewGLUE_32dev/train.jsonl", kTrain, 154},
                                                {"multirc", "MultiRC/FewGLUE_32dev/dev32.jsonl", kDev, 167},
                                                {"multirc", "MultiRC/val.jsonl", kDev, 4848},
                                                {"rte", "RTE/FewGLUE_32dev/train.jsonl", kTrain, 32},
                                                {"rte", "RTE/FewGLUE_32dev/dev32.jsonl", kDev, 32},
                                                {"rte", "RTE/train.jsonl", kTrain, 2490},
                                                {"rte", "RTE/val.jsonl", kDev, 277},
                                                {"rte", "RTE/test.jsonl", kTest, 3000},
                                                {"ax-b", "RTE/diagnostics/diagnostic-full.tsv", kTest, 1104},
                                                {"ax-g", "RTE/diagnostics/winogender_filtered.jsonl", kTest, 356},
                                                {"record", "ReCoRD/FewGLUE_32dev/train.jsonl", kTrain, 44},
                                                {"record", "ReCoRD/FewGLUE_32dev/dev32.jsonl", kDev, 32},
                                                {"wsc", "WSC/FewGLUE_32dev/train.jsonl", kTrain, 32},
                                                {"wsc", "WSC/FewGLUE_32dev/dev32.jsonl", kDev, 32},
                                                {"wsc", "WSC/train.jsonl", kTrain, 554},
                                                {"wsc", "WSC/val.jsonl", kDev, 104},
                                                {"wsc", "WSC/test.jsonl", kTest, 146},
                                                {"wic", "WiC/FewGLUE_32dev/train.jsonl", kTrain, 32},
                                                {"wic", "WiC/FewGLUE_32dev/dev32.jsonl", kDev, 32},
                                                {"wic", "WiC/val.jsonl", kDev, 638}}) {
    const TaskType& type = FindTask(expected.task);
    const auto rows = type.read(type, *folder + expected.path, expected.split);
    EXPECT_EQ(rows.size(), expected.rows) << expected.path;
    for (const TaskRow& row : rows) {
      ASSERT_TRUE(row.labelled || expected.split == kTest) << expected.path << ", " << row.id;
    }
    ExpectTargetsMeanLabels(type, rows);
    if (std::string_view(expected.task) == "record" && expected.split == kTrain) continue;  // an id for several rows
    ExpectRoundTrip(type, rows, SomePredictions(type, rows), directory_.path());
  }
  // FewGLUE's 32 rows only where there is no whole set.
  const auto found = [&](const char* task, TaskSplit split) {
    return FindTaskFile(FindTask(task), *folder, split).value();
  };
  EXPECT_TRUE(found("boolq", kDev).ends_with("BoolQ/val.jsonl"));
  EXPECT_TRUE(found("cb", kTrain).ends_with("CB/hf_export/cb_train.jsonl"));
  EXPECT_TRUE(found("wic", kTrain).ends_with("WiC/FewGLUE_32dev/train.jsonl"));
  EXPECT_TRUE(found("rte", kTrain).ends_with("RTE/train.jsonl"));
}

}  // namespace superglue_test
}  // namespace crosstalk
