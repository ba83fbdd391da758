
#include <tuple>

#include "crosstalk/models/tasks/benchmarks.h"
#include "tests/support/task_cases.h"

namespace crosstalk::superglue_test {

// The text with another part instead of its first `from`.
std::string Changed(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

class SuperGlueTest : public TaskFileTest {
 protected:
  SuperGlueTest() : TaskFileTest("file.jsonl") {}
};

constexpr const char* kRecord =
    R"({"source": "x", "idx": 4, "passage": {"text": "Zoë met Al.\n@highlight\nAl left\n@highlight\nZoë stayed",)"
    R"( "entities": [{"start": 0, "end": 2}, {"start": 8, "end": 9}, {"start": 23, "end": 24}]},)"
    R"( "qas": [{"idx": 11, "query": "@placeholder went.", "answers": [{"start": 8, "end": 9, "text": "Al"},)"
    R"( {"start": 23, "end": 24, "text": "Al"}, {"start": 0, "end": 2, "text": "Zoë"}]}]})";
constexpr const char* kMultiRc =
    R"({"idx": 5, "version": 1.1, "passage": {"text": "<b>Sent 1: </b>One.<br>Two.", "questions": [)"
    R"({"question": "How?", "idx": 8, "answers": [{"text": "So", "idx": 30, "label": 0},)"
    R"( {"text": "Thus", "idx": 31, "label": 1}]},)"
    R"( {"question": "Why?", "idx": 9, "answers": [{"text": "Hm", "idx": 32, "label": 1}]}]}})";
const std::string kBoolQ = R"({"question": "is it", "passage": "It is.", "idx": 7, "label": true})"
                           "\n"
                           R"({"question": "was it", "passage": "No.", "idx": 2, "label": 0})";
constexpr const char* kCopa =
    R"({"premise": "It rained.", "choice1": "Dry.", "choice2": "Wet.", "question": "effect", "label": 1, "idx": 3})";
const std::string kWic =
    R"({"word": "feel", "sentence1": "You féél.", "sentence2": "She felt.", "idx": 1, "label": true, "start1": 4,)";
const std::string kPair = R"({"premise": "A.", "hypothesis": "B.", "idx": 0, "label": )";

std::string Wsc(const std::string& text, int index, const std::string& span, const std::string& more) {
  return R"({"text": ")" + text + R"(", "target": {"span1_text": ")" + span +
         R"(", "span1_index": 1, "span2_text": "it", "span2_index": )" + std::to_string(index) + R"(}, "idx": 0)" +
         more + "}";
}

// Each task's objects, with words or places for labels; Google's BoolQ, which has no idx and calls the label the
// answer; ReCoRD's entities once each, and a row of training for each answer; AX-b in both forms of its files.
TEST_F(SuperGlueTest, EachFileBecomesItsRows) {
  const std::string gender = R"({"premise": "A.", "hypothesis": "B.", "label": "entailment", "pair_id": 1, "idx": )",
                    pair = "A. | B. | rte hypothesis: B. premise: A. | = entailment | 0",
                    record =
                        "11 | Zoë met Al. Al left. Zoë stayed | Al) Al went. | Zoë) Zoë went. | record query: "
                        "@placeholder went. entities: Al, Zoë passage: Zoë met Al. Al left. Zoë stayed";
  ExpectRows({
      {"boolq", kDev, kBoolQ,
       "7 | is it | It is. | boolq passage: It is. question: is it | = True | 1\n"
       "2 | was it | No. | boolq passage: No. question: was it | = False | 0\n"},
      {"boolq", kTest, R"({"question": "q", "answer": false, "passage": "p"})",
       "0 | q | p | boolq passage: p question: q | = False | 0\n"},
      {"cb", kDev, kPair + "\"contradiction\"}", "0 | A. | B. | cb hypothesis: B. premise: A. | = contradiction | 1\n"},
      {"cb", kDev, kPair + "1}", "0 | A. | B. | cb hypothesis: B. premise: A. | = contradiction | 1\n"},
      {"cb", kTest, kPair + "-1}", "0 | A. | B. | cb hypothesis: B. premise: A. | = <unk> | ?\n"},
      {"copa", kDev, kCopa,
       "3 | It rained. What happened as a RESULT? | 0) Dry. | 1) Wet. | copa choice1: Dry. choice2: Wet. "
       "premise: It rained. question: effect | = choice2 | 1\n"},
      {"multirc", kDev, kMultiRc,
       "5/8/30 of 5/8 | Sent 1: One. Two. | How? So | "
       "multirc question: How? answer: So paragraph: Sent 1: One. Two. | = False | 0\n"
       "5/8/31 of 5/8 | Sent 1: One. Two. | How? Thus | "
       "multirc question: How? answer: Thus paragraph: Sent 1: One. Two. | = True | 1\n"
       "5/9/32 of 5/9 | Sent 1: One. Two. | Why? Hm | "
       "multirc question: Why? answer: Hm paragraph: Sent 1: One. Two. | = True | 1\n"},
      {"record", kDev, kRecord, record + " | = Al | = Zoë | Al at -1 | Zoë at -1 | 0\n"},
      {"record", kTrain, kRecord,
       record + " | = Al | Al at -1 | Zoë at -1 | 0\n" + record + " | = Zoë | Al at -1 | Zoë at -1 | 1\n"},
      {"rte", kDev, kPair + "\"not_entailment\"}",
       "0 | A. | B. | rte hypothesis: B. premise: A. | = not_entailment | 1\n"},
      {"ax-b", kTest, R"({"sentence1": "A.", "sentence2": "B.", "idx": 0, "label": "entailment", "logic": ""})",
       "0 | " + pair + "\n"},
      {"ax-g", kTest, gender + "0}\n" + gender + "1}\n" + gender + "2}",
       "0 of 0 | " + pair + "\n1 of 0 | " + pair + "\n2 of 1 | " + pair + "\n"},
      {"wic", kTrain, kWic + R"( "end1": 8, "start2": 4, "end2": 8})",
       "1 | feel: You féél. | She felt. | wic sentence1: You féél. sentence2: She felt. word: feel | = True | 1\n"},
      {"wsc", kTrain, Wsc("Then the cat ate it .", 4, "The cat", R"(, "label": true)"),
       "0 | Then the cat ate *it* . | the cat | wsc: Then the cat ate *it* . | = the cat | 1\n"},
      {"wsc", kTrain, Wsc("Then the cat ate it .", 4, "the cat.", R"(, "label": false)"),
       "0 | Then the cat ate *it* . | the cat | wsc: Then the cat ate *it* . | 0\n"},
      // The original files have two such texts.
      {"wsc", kTest, Wsc("She said: \\\"Bake it,\\\" he said. ", 3, "She", ""),
       "0 | She said: \"Bake *it* ,\" he said. | She | wsc: She said: \"Bake *it* ,\" he said. | = <unk> | ?\n"},
      {"wsc", kTest, Wsc("They want to use it , now", 3, "They", ""),
       "0 | They want to use *it* , now | They | wsc: They want to use *it* , now | = <unk> | ?\n"},
  });
  const std::string tsv = WriteTaskFile(directory_.path(), "full.tsv",
                                        "Lexical Semantics\tPredicate-Argument Structure\tLogic\tKnowledge\tDomain\t"
                                        "Premise\tHypothesis\tLabel\n\t\t\t\t\tA.\tB.\tneutral\n");
  EXPECT_EQ(Shown(FindTask("ax-b"), ReadTask("ax-b", tsv, kTest)),
            "0 | A. | B. | rte hypothesis: B. premise: A. | = not_entailment | 1\n");
  EXPECT_EQ(Read("boolq", kDev, kBoolQ)[1].source, "file.jsonl, line 2");
}

TEST_F(SuperGlueTest, PredictionsAreWrittenInTheOfficialForms) {
  const struct {
    const char *task, *file;
    std::string rows, written;
  } kCases[] = {
      {"boolq", "BoolQ.jsonl", kBoolQ, "{\"idx\": 7, \"label\": \"false\"}\n{\"idx\": 2, \"label\": \"true\"}\n"},
      {"cb", "CB.jsonl", kPair + "1}", "{\"idx\": 0, \"label\": \"entailment\"}\n"},
      {"copa", "COPA.jsonl", kCopa, "{\"idx\": 3, \"label\": 0}\n"},
      {"multirc", "MultiRC.jsonl", kMultiRc,
       R"({"idx": 5, "passage": {"questions": [{"idx": 8, "answers": [{"idx": 30, "label": 0}, )"
       R"({"idx": 31, "label": 1}]}, {"idx": 9, "answers": [{"idx": 32, "label": 0}]}]}})"
       "\n"},
      {"record", "ReCoRD.jsonl", kRecord, "{\"idx\": 11, \"label\": \"Al\"}\n"},
      {"rte", "RTE.tsv", kPair + "1}", "index\tprediction\n0\tentailment\n"},
      {"rte", "RTE.jsonl", kPair + "1}", "{\"idx\": 0, \"label\": \"entailment\"}\n"},
      {"wsc", "WSC.jsonl", Wsc("the cat ate it .", 3, "the cat", R"(, "label": true)"),
       "{\"idx\": 0, \"label\": \"False\"}\n"},
  };
  for (const auto& [task, name, bytes, written] : kCases) {
    const TaskType& type = FindTask(task);
    const std::vector<TaskRow> rows = Read(task, kDev, bytes);
    ExpectRoundTrip(type, rows, SomePredictions(type, rows), directory_.path());
    std::map<std::string, std::string> files;
    for (const TaskFile& file : type.write(type, rows, SomePredictions(type, rows), kDev))
      files[file.name] = file.contents;
    EXPECT_EQ(files[name], written) << task;
  }
}

TEST_F(SuperGlueTest, WscIsAnsweredByTheReferent) {
  const TaskType& type = FindTask("wsc");
  const TaskRow row = Read("wsc", kTrain, Wsc("Then the cat ate it .", 4, "The cat", R"(, "label": true)"))[0];
  EXPECT_EQ(type.answer_of_text(type, row, "cat"), "True");
  EXPECT_EQ(type.answer_of_text(type, row, "mouse"), "False");
  EXPECT_EQ(type.answer_of_text(type, row, " the "), " the ") << "says nothing";
  EXPECT_EQ(FindTask("copa").answer_of_text(FindTask("copa"), Read("copa", kDev, kCopa)[0], " choice2"), "1");
}

TEST_F(SuperGlueTest, WordsNameAReferentAsPublished) {
  const std::tuple<const char*, const char*, std::optional<bool>> kCases[] = {
      {"the cat", "cat", true},    {"a potato", "my potato", true}, {"fuzzy bunny", "fuzzy hungry bunny", true},
      {"Bob's hat", "Bob", false}, {"Bob", "Bob's hat", false},     {"hat", "Bob's hat", false},  // no apostrophe
      {"potato", "turnip", false}, {"  BOB ", "bob", true},         {"", "bob", std::nullopt}};
  for (const auto& [words, referent, names] : kCases) EXPECT_EQ(NamesReferent(words, referent), names) << words;
}

TEST_F(SuperGlueTest, ABrokenLineIsNamedWithItsPlaceInIt) {
  const std::string good = R"({"question": "q", "passage": "p", "idx": 0, "label": true})";
  Bytes boolq = {
      {"an id twice", good, {"line 2: the id \"0\" stands at file.jsonl, line 1 already"}},
      {"a list", "[]", {"file.jsonl: line 2: must be an object, but is an array"}},
      {"cut off", "{\"question\": \"q\"", {"file.jsonl: line 2: byte"}},
      {"a key twice", R"({"question": "q", "question": "q"})", {"line 2: "}},
      {"a number",
       R"({"question": 3, "passage": "p", "idx": 1, "label": true})",
       {"line 2: question: must be a string"}},
      {"no label", R"({"question": "q", "passage": "p", "idx": 1})", {"line 2: label"}},
      {"a class",
       R"({"question": "q", "passage": "p", "idx": 1, "label": 2})",
       {"line 2: label: 2 is none of false, true"}},
      {"an idx", R"({"question": "q", "passage": "p", "idx": -1, "label": true})", {"line 2: idx"}},
      {"depth", std::string(100000, '['), {"line 2: "}},
  };
  for (auto& row : boolq) row.input = good + "\n" + row.input;
  ExpectRefused("boolq", kDev, boolq);
  ExpectRefused("cb", kDev, {{"no label", kPair + "-1}", {"file.jsonl: line 1: label: is -1"}}});
  ExpectRefused("copa", kDev, {{"a question", Changed(kCopa, "effect", "why"), {"question: \"why\" is neither"}}});
  ExpectRefused("wic", kTrain,
                {{"an end outside", kWic + R"( "end1": 10})", {"line 1: end1"}},
                 {"an end before the start", kWic + R"( "end1": 3})", {"line 1: end1"}}});
  ExpectRefused("wsc", kTest,
                {{"no such word", Wsc("No such word", 1, "No", ""), {"span2_index: the text has no word \"it\""}},
                 {"a place outside", Wsc("it", 9, "No", ""), {"span2_index: 9 is no word"}}});
  std::string options, query;
  for (int i = 0; i < 5000; ++i) options += std::string(i ? "," : "") + R"({"text":"a","label":0})";
  for (int i = 0; i < 20'000; ++i) query += "@placeholder ";
  const std::string passage = R"({"idx": 0, "passage": {"text": ")", long_text(100'000, 'x');
  ExpectRefused("multirc", kTrain,
                {{"an answer without a text",
                  Changed(kMultiRc, R"("text": "Thus", )", ""),
                  {"line 1: passage.questions[0].answers[1]: text"}},
                 {"a passage in too many rows",
                  passage + long_text + R"(", "questions": [{"question": "q", "answers": [)" + options + "]}]}}",
                  {"stands in too many of them"}}});
  ExpectRefused(
      "record", kTest,
      {{"an entity outside", Changed(kRecord, "\"end\": 24", "\"end\": 52"), {"passage.entities[2]: end"}},
       {"no placeholder", Changed(kRecord, "@placeholder", "nothing"), {"qas[0]: query: has no @placeholder"}},
       {"a query that would grow",
        passage + long_text.substr(50'000) + R"(", "entities": [{"start": 0, "end": 49999}]}, "qas": [{"query": ")" +
            query + "\"}]}",
        {"stands in too many of them"}}});
}

TEST_F(SuperGlueTest, PredictionsOfUnknownOrDoubledIdsAreRefused) {
  const auto rows = Read("boolq", kDev, R"({"question": "q", "passage": "p", "idx": 3, "label": true})");
  for (const auto& [label, answer] : {std::pair("true", "true"), {"\"True\"", "true"}, {"\"maybe\"", "maybe"}}) {
    EXPECT_EQ(ReadPredictions("boolq", StrCat("{\"idx\": 3, \"label\": ", label, "}"), rows)[0].answer, answer);
  }
  const std::string one = R"({"idx": 3, "label": true})";
  ExpectPredictionsRefused(
      "boolq", rows,
      {{"an id of no row", R"({"idx": 4, "label": true})", {"line 1: the id \"4\" is not one of the scored rows"}},
       {"an id twice", one + "\n" + one, {"file.jsonl: line 2: a second prediction for the id \"3\""}},
       {"no id", R"({"label": true})", {"line 1: idx"}}});
}

TEST_F(SuperGlueTest, TheOriginalFilesAreReadWhole) {
  const auto folder = RealTasks("superglue");
  if (!folder) GTEST_SKIP() << "set CROSSTALK_DATA to the folder of real data";
  // SPLIT, the file in the task's folder, its rows.
  const struct {
    const char *task, *folder;
    std::string files;
  } kTasks[] = {
      {"boolq", "BoolQ", "dev val 3270 train hf_export/boolq_train 1000"},
      {"cb", "CB", "dev val 56 train hf_export/cb_train 250 dev hf_export/cb_validation 56 test hf_export/cb_test 250"},
      {"copa", "COPA",
       "dev val 100 train hf_export/copa_train 400 dev hf_export/copa_validation 100 test hf_export/copa_test 500"},
      {"multirc", "MultiRC", "dev val 4848 train FewGLUE_32dev/train 154 dev FewGLUE_32dev/dev32 167"},
      {"rte", "RTE", "dev val 277 train train 2490 test test 3000"},
      {"ax-b", "RTE", "test diagnostics/diagnostic-full.tsv 1104"},
      {"ax-g", "RTE", "test diagnostics/winogender_filtered 356"},
      {"record", "ReCoRD", "train FewGLUE_32dev/train 44 dev FewGLUE_32dev/dev32 32"},
      {"wsc", "WSC", "dev val 104 train train 554 test test 146"},
      {"wic", "WiC", "dev val 638"},
  };
  for (const auto& [task, subfolder, files] : kTasks) {
    const std::string path = StrCat(*folder, "/", subfolder, "/"), few = path + "FewGLUE_32dev/train.jsonl";
    const TaskType& type = FindTask(task);
    std::istringstream words(files);
    size_t count = 0;
    for (std::string split, name; words >> split >> name >> count;) {
      ExpectWholeFile(type, path + name + (name.ends_with("tsv") ? "" : ".jsonl"),
                      split == "train" ? kTrain
                      : split == "dev" ? kDev
                                       : kTest,
                      count, directory_.path());
    }
    if (std::filesystem::exists(few) && files.find("FewGLUE") == std::string::npos && *type.name != 'a') {
      ExpectWholeFile(type, few, kTrain, 32, directory_.path());
      ExpectWholeFile(type, path + "FewGLUE_32dev/dev32.jsonl", kDev, 32, directory_.path());
    }
  }
  // FewGLUE's 32 rows only if there is no whole set.
  for (const auto& [task, split, file] : {std::tuple("boolq", kDev, "BoolQ/val.jsonl"),
                                          {"cb", kTrain, "CB/hf_export/cb_train.jsonl"},
                                          {"wic", kTrain, "WiC/FewGLUE_32dev/train.jsonl"},
                                          {"rte", kTrain, "RTE/train.jsonl"}}) {
    EXPECT_EQ(FindTaskFile(FindTask(task), *folder, split).value(), *folder + "/" + file);
  }
}

}  // namespace crosstalk::superglue_test
