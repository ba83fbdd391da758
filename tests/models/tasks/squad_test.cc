// SQuAD's questions: from their files, and for an encoder from answers to labels of windows and back to text.

#include "crosstalk/models/tasks/benchmarks.h"
#include "crosstalk/models/tasks/encoder_rows.h"
#include "crosstalk/models/tasks/text_to_text.h"
#include "crosstalk/models/training/objectives/encoder_examples.h"
#include "tests/support/packed.h"
#include "tests/support/task_cases.h"

namespace crosstalk::squad_test {

// One question on a passage of two-byte letters, with the fields given; as the datasets library has it, in a line.
std::string Squad(const std::string& fields) {
  return R"({"version": "1.1", "data": [{"title": "T", "paragraphs": [{"context": "Zoë, née Roë, met Zoë.", "qas": [)"
         R"({"id": "q1", "question": "Who met?", )" +
         fields + "}]}]}]}";
}
std::string Flat(const std::string& fields, const std::string& id = "q1") {
  return R"({"id": ")" + id + R"(", "title": "T", "context": "Zoë, née Roë, met Zoë.", "question": "Who met?", )" +
         fields + "}";
}
std::string Answer(const std::string& text, int start) {
  return StrCat(R"("answers": [{"text": ")", text, R"(", "answer_start": )", start, "}]");
}
const std::string kTwo = R"("answers": [{"text": "Zoë", "answer_start": 18}, {"text": "Roë", "answer_start": 9}])";
const std::string kColumns = R"("answers": {"text": ["Zoë", "Roë"], "answer_start": [18, 9]})";
const std::string kNone = R"("answers": [])", kNoColumn = R"("answers": {"text": [], "answer_start": []})";
// A row as it is shown, with what it says of answers.
std::string Row(const std::string& rest, const std::string& id = "q1") {
  return id + " | Who met? | Zoë, née Roë, met Zoë. | question: Who met ? context: Zoë , née Roë , met Zoë .  | " +
         rest + "\n";
}

class SquadTest : public TaskFileTest {
 protected:
  SquadTest() : TaskFileTest("squad.json") {}
};

TEST_F(SquadTest, PunctuationIsSpacedAsT5HasIt) {
  EXPECT_EQ(SpacedPunctuation("A question?"), "A question ? ");
  EXPECT_EQ(SpacedPunctuation("(a_b)\t\n c"), " ( a _ b ) c");
  EXPECT_EQ(SpacedPunctuation("née“x”"), "née“x”") << "ASCII alone";
}

// Places are bytes; an answer that stands elsewhere counts at the nearest place. In version two the answers decide
// where nothing else is said of whether there is one. Lines and columns are the datasets library's form.
TEST_F(SquadTest, EachFileBecomesItsRows) {
  const std::string two = Row("= Zoë | = Roë | Zoë at 21 | Roë at 11 | 0"), none = Row("=  | 0");
  ExpectRows({
      {"squad", kDev, Squad(kTwo), two},
      {"squad", kDev, Squad(Answer("Zoë", 15)), Row("= Zoë | Zoë at 21 | 0")},
      {"squad", kDev, Squad(Answer("Zoë", 3)), Row("= Zoë | Zoë at 0 | 0")},
      {"squad", kDev, Squad(Answer("Bob", 3)), Row("= Bob | Bob at -1 | 0")},
      {"squad", kTest, Squad(R"("x": 0)"), Row("= <unk> | ?")},
      {"squad-v2", kDev, Squad(kNone + R"(, "is_impossible": true)"), none},
      {"squad-v2", kTrain, Squad(kNone), none},
      {"squad-v2", kDev, Squad(kNone + R"(, "is_impossible": null)"), none},
      {"squad-v2", kTest, Squad(kNone), Row("= <unk> | ?")},
      {"squad", kDev, Squad(kColumns), two},
      {"squad", kDev, Flat(kTwo), two},
      {"squad-v2", kDev, Flat(kColumns), two},
      {"squad-v2", kDev, Flat(kColumns) + "\n" + Flat(kNoColumn, "q2") + "\n", two + Row("=  | 0", "q2")},
      {"squad-v2", kDev, "\xEF\xBB\xBF\n" + Flat(kColumns) + "\r\n\r\n" + Flat(kNone, "q2"), two + Row("=  | 0", "q2")},
  });
  EXPECT_EQ(Read("squad", kDev, Squad(kTwo))[0].source, "squad.json, data[0].paragraphs[0].qas[0]");
  EXPECT_EQ(Read("squad", kDev, "\n" + Flat(kTwo) + "\n\n" + Flat(kTwo, "q2"))[1].source, "squad.json, line 4");
}

TEST_F(SquadTest, BrokenFilesAreRefusedWithThePlace) {
  const std::string first = Flat(kColumns) + "\n", question = R"({"id": "q1", "question": "?", )" + Answer("Zoë", 0);
  ExpectRefused(
      "squad", kDev,
      {{"a list", "[]", {"squad.json: must be an object"}},
       {"no context", "{\"data\": [{\"paragraphs\": [{\"qas\": []}]}]}", {"data[0].paragraphs[0]: context"}},
       {"an article", "{\"data\": [3]}", {"data[0]"}},
       {"no article", "{\"data\": []}", {"there is no row"}},
       {"cut off", "{\"data\": ", {"squad.json: byte"}},
       {"depth", std::string(1000, '['), {"squad.json: byte"}},
       {"an id twice",
        R"({"data": [{"paragraphs": [{"context": "Zoë", "qas": [)" + question + "}, " + question + "}]}]}]}",
        {"qas[1]: the id \"q1\" stands at squad.json, data[0].paragraphs[0].qas[0]"}},
       {"beyond the passage",
        Squad(Answer("Zoë", 99)),
        {"squad.json: data[0].paragraphs[0].qas[0].answers[0]: answer_start"}},
       {"before the passage", Squad(Answer("Zoë", -1)), {"answer_start"}},
       {"no answer", Squad(kNone + R"(, "is_impossible": true)"), {"answers: there is none; squad-v2 has such"}},
       {"no answer in a line", first + Flat(kNoColumn, "q2"), {"line 2: answers: there is none; squad-v2 has such"}},
       {"a line without a context", first + "{}", {"line 2: context: is missing"}},
       {"a line of a number", first + "3", {"line 2: must be an object"}},
       {"a line twice", first + first, {"line 2: the id \"q1\" stands at squad.json, line 1 already"}},
       {"a place too few", Flat(R"("answers": {"text": ["Zoë"], "answer_start": []})"), {"1 texts, but 0 places"}},
       {"no places", Flat(R"("answers": {"text": ["Zoë"]})"), {"answers.answer_start"}},
       {"a place", Flat(R"("answers": {"text": ["Zoë"], "answer_start": [99]})"), {"answers[0]: answer_start"}},
       {"a text", Flat(R"("answers": "Zoë")"), {"answers: must be"}},
       {"no answers", Flat(R"("x": 1)"), {"answers"}},
       {"rows in a list",
        "[" + Flat(kColumns) + "]",
        {"must be an object, but is an array; rows are read as JSON lines"}},
       {"packed", "PK\3\4", {"squad.json: is a zip archive: unpack it"}}});
  ExpectRefused("squad-v2", kDev,
                {{"possible", Squad(kNone + R"(, "is_impossible": false)"), {"answers: there is none"}},
                 {"impossible", Squad(R"("is_impossible": true, )" + Answer("Zoë", 0)), {"is_impossible"}}});
}

TEST_F(SquadTest, FilesAreFoundFlatAndPacked) {
  const std::string folder = directory_.path(), row = Flat(kTwo);
  const TaskType &v1 = FindTask("squad"), &v2 = FindTask("squad-v2");
  WriteTaskFile(folder, "squad/validation.jsonl", row);
  WriteTaskFile(folder, "squad_v2/train.jsonl.gz", Gzip(row));
  EXPECT_EQ(FindTaskFile(v1, folder, kDev), folder + "/squad/validation.jsonl");
  EXPECT_EQ(FindTaskFile(v1, folder + "/squad", kDev), folder + "/squad/validation.jsonl");
  EXPECT_EQ(FindTaskFile(v2, folder + "/squad_v2", kTrain), folder + "/squad_v2/train.jsonl.gz");
  WriteTaskFile(folder, "dev-v1.1.json.gz", Gzip(Squad(kTwo)));
  EXPECT_EQ(FindTaskFile(v1, folder, kDev), folder + "/dev-v1.1.json.gz");
  for (const char* file : {"dev-v1.1.json.gz", "squad/validation.jsonl", "squad_v2/train.jsonl.gz"}) {
    EXPECT_EQ(ReadTask("squad", folder + "/" + file, kDev)[0].answers[0].text, "Zoë") << file;
  }
}

TEST_F(SquadTest, PredictionsAreAnObjectOfTextsById) {
  const auto rows = Read("squad-v2", kDev, Squad(kNone));
  const TaskType& type = FindTask("squad-v2");
  const std::vector<TaskPrediction> predictions = {{.id = "q1", .answer = "", .no_answer = 0.75}};
  const auto files = type.write(type, rows, predictions, kDev);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].name, "SQuAD-v2.0.json");
  EXPECT_EQ(files[0].contents, "{\n  \"q1\": \"\"\n}\n");
  EXPECT_EQ(files[1].name, "SQuAD-v2.0-na_prob.json");
  EXPECT_EQ(files[1].contents, "{\n  \"q1\": 0.75\n}\n");
  ExpectRoundTrip(type, rows, predictions, directory_.path());
  const auto other = ReadPredictions("squad-v2", R"({"q2": "x"})", rows);  // which its scripts leave out
  ASSERT_EQ(other.size(), 1u);
  EXPECT_EQ(other[0].id, "q2");
  WriteTaskFile(directory_ / "predictions", "squad-na_prob.json", R"({"q3": 1})");
  ExpectPredictionsRefused(
      "squad-v2", rows,
      {{"a key twice", R"({"q1": "x", "q1": "y"})", {"squad.json: byte"}},
       {"a number", R"({"q1": 3})", {"squad.json: \"q1\": must be a string"}},
       {"a list", "[]", {"must be an object"}},
       {"a probability of no prediction", R"({"q1": "x"})", {"squad-na_prob.json: the id \"q3\" has no prediction"}}});
}

TEST_F(SquadTest, TheOriginalFilesAreReadWhole) {
  const auto folder = RealTasks("squad");
  if (!folder) GTEST_SKIP() << "set CROSSTALK_DATA to the folder of real data";
  const struct {
    const char* task;
    TaskSplit split;
    size_t rows, answers, without;
  } kFiles[] = {
      {"squad", kTrain, 8587, 28709, 0}, {"squad", kDev, 1135, 3437, 0}, {"squad-v2", kDev, 3781, 6468, 1887}};
  for (const auto& expected : kFiles) {
    const TaskType& type = FindTask(expected.task);
    const auto rows = type.read(type, FindTaskFile(type, *folder, expected.split).value(), expected.split);
    size_t answers = 0, without = 0;
    std::vector<TaskPrediction> predictions;
    for (const TaskRow& row : rows) {
      answers += row.answers.size();
      without += row.answers.empty() ? 1 : 0;
      for (const TaskAnswer& answer : row.answers) {
        ASSERT_EQ(row.second->substr(static_cast<size_t>(answer.begin.value()), answer.text.size()), answer.text);
      }
      predictions.push_back({row.id, row.answers.empty() ? "" : row.answers[0].text, std::nullopt});
    }
    EXPECT_EQ(rows.size(), expected.rows);
    EXPECT_EQ(answers, expected.answers);
    EXPECT_EQ(without, expected.without);
    ExpectRoundTrip(type, rows, predictions, directory_.path());
  }
}

// How many of the questions a model answers with the very text of an answer if it is always right.
size_t Hits(const std::vector<TaskRow>& rows, const std::shared_ptr<const Tokenizer>& tokenizer,
            const EncoderTaskOptions& options) {
  const auto examples = MakeEncoderExamples(FindTask("squad"), std::make_shared<const std::vector<TaskRow>>(rows),
                                            tokenizer, options, 0, TextSource::Order::kSequential);
  const EncoderRows form(*tokenizer, options);
  size_t hits = 0;
  int64_t place = 0;
  for (const TaskRow& row : rows) {
    const std::vector<TokenSpan> question = tokenizer->EncodeSpans(row.first);
    const std::vector<TokenSpan> passage = tokenizer->EncodeSpans(*row.second);
    std::vector<WindowScores> windows;
    for (const PassageWindow& window : form.Windows(std::ssize(question), std::ssize(passage))) {
      Batch batch = examples->EmptyBatch(1);
      examples->Write(place++, 0, batch, 0);
      const std::vector<double> zeros(form.Window(question, passage, window).tokens.size(), 0);
      WindowScores& scores =
          windows.emplace_back(WindowScores{window, form.PassageAt(std::ssize(question)), zeros, zeros});
      scores.starts.at(batch.Get("start_positions").data<int32_t>()[0]) = 9;
      scores.ends.at(batch.Get("end_positions").data<int32_t>()[0]) = 9;
    }
    const std::string text = SpanText(*row.second, passage, FindBestSpan(windows, options).tokens.value());
    hits += std::any_of(row.answers.begin(), row.answers.end(), [&](const auto& one) { return one.text == text; });
  }
  EXPECT_EQ(place, examples->num_places());
  return hits;
}

TEST(SquadSpansTest, LabelsMapBackToTheAnswersText) {
  const auto data = RealTasks("");
  if (!data) GTEST_SKIP() << "CROSSTALK_DATA is not set: it names the folder of SQuAD";
  const std::vector<TaskRow> rows = ReadTask("squad", *data + "squad/dev-v1.1.json", TaskSplit::kDev);
  const auto expect = [&](const std::shared_ptr<const Tokenizer>& tokenizer, const EncoderTaskOptions& options) {
    EXPECT_GT(1000 * Hits(rows, tokenizer, options), 995 * rows.size()) << tokenizer->kind() << options.input_length;
  };
  const std::shared_ptr<const Tokenizer> pieces = OpenTokenizer(*data + "fixtures/bert-base-uncased/vocab.txt", 0);
  expect(pieces, {});
  expect(pieces, {.input_length = 128, .window_stride = 32});
  expect(OpenTokenizer(*data + "fixtures/albert", 0), {});
  expect(MakeByteTokenizer(0, MaskTokens::kYes), {.input_length = 512, .query_length = 128, .answer_length = 150});
}

TEST(SpacedAnswerTest, AnAnswerReadsAsInThePassageAndWhatStandsNowhereStaysAsItIs) {
  const std::string passage = "In 1862, the U.S. Army (of 3.5 million) won: \"the Keck-built\u00A0fort\" fell.";
  for (const char* answer : {"U.S. Army", "1862", "3.5 million", "Keck-built", "(of 3.5",
                             "\"the Keck-built\u00A0fort\"", "In 1862, the U.S.", "fell.", "."}) {
    EXPECT_EQ(UnspacedAnswer(SpacedPunctuation(answer), passage), answer);
    EXPECT_EQ(UnspacedAnswer(answer, passage), answer);
  }
  EXPECT_EQ(UnspacedAnswer(" U . S . Navy\n", passage), "U . S . Navy");
  EXPECT_EQ(UnspacedAnswer("Ar my", passage), "Ar my");
  EXPECT_EQ(UnspacedAnswer("mil lion", passage), "mil lion");
  EXPECT_EQ(UnspacedAnswer("the U . S", "the U.S."), "the U.S");
  EXPECT_EQ(UnspacedAnswer(" ", passage), "");
  EXPECT_EQ(UnspacedAnswer("x", ""), "x");
}

}  // namespace crosstalk::squad_test
