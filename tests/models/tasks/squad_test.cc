#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/tasks/benchmarks.h"
#include "crosstalk/models/tasks/encoder_rows.h"
#include "crosstalk/models/tasks/task.h"
#include "crosstalk/models/tasks/text_to_text.h"
#include "crosstalk/models/training/objectives/encoder_examples.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/messages.h"
#include "tests/support/packed.h"
#include "tests/support/task_cases.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace squad_test {

using testing::Contains;
using testing::MessageOf;
using Strings = std::vector<std::string>;

// One question on a passage of two-byte letters, with the fields given.
std::string Squad(const std::string& fields, const std::string& context = "Zoë, née Roë, met Zoë.") {
  return R"({"version": "1.1", "data": [{"title": "T", "paragraphs": [{"context": ")" + context +
         R"(", "qas": [{"id": "q1", "question": "Who met?", )" + fields + "}]}]}]}";
}
std::string Answers(const std::string& text, int start) {
  return R"("answers": [{"text": ")" + text + R"(", "answer_start": )" + std::to_string(start) + "}]";
}

class SquadTest : public ::testing::Test {
 protected:
  std::vector<TaskRow> Read(std::string_view bytes, const char* task = "squad", TaskSplit split = TaskSplit::kDev) {
    return ReadTask(task, WriteTaskFile(directory_.path(), "squad.json", bytes), split);
  }
  std::string Refusal(std::string_view bytes, const char* task = "squad") {
    return MessageOf([&] { Read(bytes, task); }, ErrorKind::kData);
  }

  TempDir directory_;
};

TEST_F(SquadTest, PunctuationIsSpacedAsT5HasIt) {
  EXPECT_EQ(SpacedPunctuation("A question?"), "A question ? ");
  EXPECT_EQ(SpacedPunctuation("(a_b)\t\n c"), " ( a _ b ) c");
  EXPECT_EQ(SpacedPunctuation("née“x”"), "née“x”") << "ASCII alone";
}

TEST_F(SquadTest, AQuestionHasItsPassageItsAnswersAndTheirBytes) {
  const auto rows =
      Read(Squad(R"("answers": [{"text": "Zoë", "answer_start": 18}, {"text": "Roë", "answer_start": 9}])"));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].source, "squad.json, data[0].paragraphs[0].qas[0]");
  EXPECT_EQ(rows[0].id, "q1");
  EXPECT_EQ(rows[0].first, "Who met?");
  EXPECT_EQ(rows[0].input, "question: Who met ? context: Zoë , née Roë , met Zoë . ");
  EXPECT_EQ(rows[0].targets, (Strings{"Zoë", "Roë"}));
  EXPECT_EQ(rows[0].answers[0].begin, 21);
  EXPECT_EQ(rows[0].answers[1].begin, 11);
  EXPECT_EQ(rows[0].second->substr(21, 4), "Zoë");
}

TEST_F(SquadTest, AnAnswerThatStandsElsewhereCountsAtTheNearestPlace) {
  EXPECT_EQ(Read(Squad(Answers("Zoë", 15)))[0].answers[0].begin, 21);
  EXPECT_EQ(Read(Squad(Answers("Zoë", 3)))[0].answers[0].begin, 0);
  const auto nowhere = Read(Squad(Answers("Bob", 3)));
  EXPECT_EQ(nowhere[0].answers[0].begin, std::nullopt);
  EXPECT_EQ(nowhere[0].targets, Strings{"Bob"});
  EXPECT_TRUE(Contains(Refusal(Squad(Answers("Zoë", 99))),
                       "squad.json: data[0].paragraphs[0].qas[0].answers[0]: answer_start"));
  EXPECT_TRUE(Contains(Refusal(Squad(Answers("Zoë", -1))), "answer_start"));
}

TEST_F(SquadTest, OnlyVersionTwoHasQuestionsWithoutAnAnswer) {
  const std::string none = Squad(R"("answers": [], "is_impossible": true)");
  const auto rows = Read(none, "squad-v2");
  EXPECT_TRUE(rows[0].labelled);
  EXPECT_TRUE(rows[0].answers.empty());
  EXPECT_EQ(rows[0].targets, Strings{""});
  EXPECT_TRUE(Contains(Refusal(none), "answers: there is none"));
  EXPECT_TRUE(
      Contains(Refusal(Squad(R"("answers": [], "is_impossible": false)"), "squad-v2"), "answers: there is none"));
  EXPECT_TRUE(Contains(Refusal(Squad(R"("is_impossible": true, )" + Answers("Zoë", 0)), "squad-v2"), "is_impossible"));
  const auto test = Read(Squad(R"("x": 0)"), "squad", TaskSplit::kTest);
  EXPECT_FALSE(test[0].labelled);
  // The answers decide where nothing else is said.
  for (const char* members : {R"("answers": [])", R"("answers": [], "is_impossible": null)"}) {
    const std::string silent = Squad(members);
    for (const TaskSplit split : {TaskSplit::kTrain, TaskSplit::kDev}) {
      const auto unsaid = Read(silent, "squad-v2", split);
      EXPECT_TRUE(unsaid[0].labelled);
      EXPECT_EQ(unsaid[0].targets, Strings{""});
    }
    EXPECT_FALSE(Read(silent, "squad-v2", TaskSplit::kTest)[0].labelled);
    EXPECT_TRUE(Contains(Refusal(silent), "answers: there is none; squad-v2 has such"));
  }
}

// The datasets library's form: a question a line, its answers in columns.
TEST_F(SquadTest, FlatRowsAreTheSameQuestions) {
  const std::string context = R"("title": "T", "context": "Zoë, née Roë, met Zoë.", "question": "Who met?", )";
  const std::string first =
      R"({"id": "q1", )" + context + R"("answers": {"text": ["Zoë", "Roë"], "answer_start": [18, 9]}})";
  const std::string second = R"({"id": "q2", )" + context + R"("answers": {"text": [], "answer_start": []}})";
  const auto nested =
      Read(Squad(R"("answers": [{"text": "Zoë", "answer_start": 18}, {"text": "Roë", "answer_start": 9}])"));
  for (const std::string& bytes :
       {first, first + "\n" + second + "\n", "\xEF\xBB\xBF\n" + first + "\r\n\r\n" + second}) {
    const auto rows = Read(bytes, "squad-v2");
    ASSERT_EQ(rows.size(), bytes == first ? 1u : 2u);
    EXPECT_EQ(rows[0].id, "q1");
    EXPECT_EQ(rows[0].input, nested[0].input);
    EXPECT_EQ(rows[0].first, nested[0].first);
    EXPECT_EQ(rows[0].second, nested[0].second);
    EXPECT_EQ(rows[0].targets, nested[0].targets);
    ASSERT_EQ(rows[0].answers.size(), 2u);
    EXPECT_EQ(rows[0].answers[0].begin, 21);
    EXPECT_EQ(rows[0].answers[1].begin, 11);
    if (rows.size() == 1) continue;
    EXPECT_EQ(rows[1].source, bytes.starts_with(first) ? "squad.json, line 2" : "squad.json, line 4");
    EXPECT_TRUE(rows[1].labelled && rows[1].answers.empty());
    EXPECT_EQ(rows[1].targets, Strings{""});
  }
  // Columns in the nested form, and a list in the flat one.
  EXPECT_EQ(Read(Squad(R"("answers": {"text": ["Zoë"], "answer_start": [18]})"))[0].answers[0].begin, 21);
  EXPECT_EQ(Read(R"({"id": "q1", )" + context + Answers("Roë", 9) + "}")[0].answers[0].begin, 11);

  const struct {
    std::string bytes, says;
  } kRefused[] = {
      {first + "\n" + second, "line 2: answers: there is none; squad-v2 has such"},
      {first + "\n{}", "line 2: context: is missing"},
      {first + "\n3", "line 2: must be an object"},
      {first + "\n" + first, "line 2: the id \"q1\" stands at squad.json, line 1 already"},
      {R"({"id": "q1", )" + context + R"("answers": {"text": ["Zoë"], "answer_start": []}})", "1 texts, but 0 places"},
      {R"({"id": "q1", )" + context + R"("answers": {"text": ["Zoë"]}})", "answers.answer_start"},
      {R"({"id": "q1", )" + context + R"("answers": {"text": ["Zoë"], "answer_start": [99]}})",
       "answers[0]: answer_start"},
      {R"({"id": "q1", )" + context + R"("answers": "Zoë"})", "answers: must be"},
      {R"({"id": "q1", )" + context + R"("x": 1})", "answers"},
      {"[" + first + "]", "must be an object, but is an array; rows are read as JSON lines"},
  };
  for (const auto& [bytes, says] : kRefused) EXPECT_PRED2(Contains, Refusal(bytes), says) << bytes;
}

TEST_F(SquadTest, FilesAreFoundFlatAndPacked) {
  const std::string row = R"({"id": "q1", "context": "Zoë.", "question": "Who?", )" + Answers("Zoë", 0) + "}";
  const std::string folder = directory_.path();
  const TaskType &v1 = FindTask("squad"), &v2 = FindTask("squad-v2");
  WriteTaskFile(folder, "squad/validation.jsonl", row);
  WriteTaskFile(folder, "squad_v2/train.jsonl.gz", Gzip(row));
  EXPECT_EQ(FindTaskFile(v1, folder, TaskSplit::kDev), folder + "/squad/validation.jsonl");
  EXPECT_EQ(FindTaskFile(v1, folder + "/squad", TaskSplit::kDev), folder + "/squad/validation.jsonl");
  EXPECT_EQ(FindTaskFile(v2, folder + "/squad_v2", TaskSplit::kTrain), folder + "/squad_v2/train.jsonl.gz");
  WriteTaskFile(folder, "dev-v1.1.json.gz", Gzip(Squad(Answers("Zoë", 0))));
  EXPECT_EQ(FindTaskFile(v1, folder, TaskSplit::kDev), folder + "/dev-v1.1.json.gz");
  for (const char* file : {"dev-v1.1.json.gz", "squad/validation.jsonl", "squad_v2/train.jsonl.gz"}) {
    EXPECT_EQ(ReadTask("squad", folder + "/" + file, TaskSplit::kDev)[0].answers[0].text, "Zoë") << file;
  }
  WriteTaskFile(folder, "x.json", "PK\3\4");
  EXPECT_PRED2(Contains, MessageOf([&] { ReadTask("squad", folder + "/x.json", TaskSplit::kDev); }, ErrorKind::kData),
               "x.json: is a zip archive: unpack it");
}

TEST_F(SquadTest, BrokenFilesAreRefusedWithThePlace) {
  EXPECT_TRUE(Contains(Refusal("[]"), "squad.json: must be an object"));
  EXPECT_TRUE(Contains(Refusal("{\"data\": [{\"paragraphs\": [{\"qas\": []}]}]}"), "data[0].paragraphs[0]: context"));
  EXPECT_TRUE(Contains(Refusal("{\"data\": [3]}"), "data[0]"));
  EXPECT_TRUE(Contains(Refusal("{\"data\": []}"), "there is no row"));
  EXPECT_TRUE(Contains(Refusal("{\"data\": "), "squad.json: byte"));
  EXPECT_TRUE(Contains(Refusal(std::string(1000, '[')), "squad.json: byte"));
  const std::string twice = R"({"data": [{"paragraphs": [{"context": "Zoë", "qas": [)"
                            R"({"id": "q1", "question": "?", "answers": [{"text": "Zoë", "answer_start": 0}]},)"
                            R"({"id": "q1", "question": "?", "answers": [{"text": "Zoë", "answer_start": 0}]}]}]}]})";
  EXPECT_TRUE(Contains(Refusal(twice), "qas[1]: the id \"q1\" stands at squad.json, data[0].paragraphs[0].qas[0]"));
}

TEST_F(SquadTest, PredictionsAreAnObjectOfTextsById) {
  const auto rows = Read(Squad(R"("answers": [], "is_impossible": true)"), "squad-v2");
  const TaskType& type = FindTask("squad-v2");
  const std::vector<TaskPrediction> predictions = {{.id = "q1", .answer = "", .no_answer = 0.75}};
  const auto files = type.write(type, rows, predictions, TaskSplit::kDev);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].name, "SQuAD-v2.0.json");
  EXPECT_EQ(files[0].contents, "{\n  \"q1\": \"\"\n}\n");
  EXPECT_EQ(files[1].name, "SQuAD-v2.0-na_prob.json");
  EXPECT_EQ(files[1].contents, "{\n  \"q1\": 0.75\n}\n");
  ExpectRoundTrip(type, rows, predictions, directory_.path());

  const auto refusal = [&](std::string_view bytes) {
    const std::string path = WriteTaskFile(directory_.path(), "p.json", bytes);
    return MessageOf([&] { type.read_predictions(type, path, rows); }, ErrorKind::kData);
  };
  // Of another question: its scripts leave that out.
  const std::string other = WriteTaskFile(directory_.path(), "p.json", R"({"q2": "x"})");
  const auto kept = type.read_predictions(type, other, rows);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].id, "q2");
  EXPECT_TRUE(Contains(refusal(R"({"q1": "x", "q1": "y"})"), "p.json: byte")) << "a doubled key";
  EXPECT_TRUE(Contains(refusal(R"({"q1": 3})"), "p.json: \"q1\": must be a string"));
  EXPECT_TRUE(Contains(refusal("[]"), "must be an object"));
  WriteTaskFile(directory_.path(), "p-na_prob.json", R"({"q3": 1})");
  EXPECT_TRUE(Contains(refusal(R"({"q1": "x"})"), "p-na_prob.json: the id \"q3\" has no prediction"));
}

TEST_F(SquadTest, TheOriginalFilesAreReadWhole) {
  const auto folder = RealTasks("squad");
  if (!folder) GTEST_SKIP() << "set CROSSTALK_DATA to the folder of real data";
  struct Case {
    const char* task;
    TaskSplit split;
    size_t rows, answers, without;
  };
  for (const Case& expected : std::vector<Case>{{"squad", TaskSplit::kTrain, 8587, 28709, 0},
                                                {"squad", TaskSplit::kDev, 1135, 3437, 0},
                                                {"squad-v2", TaskSplit::kDev, 3781, 6468, 1887}}) {
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

// SQuAD's real questions, from answers to labels of windows and back to text: what a model that is always right scores.

std::string DataFolder() {
  const char* data = std::getenv("CROSSTALK_DATA");
  return data == nullptr ? "" : data;
}

// The byte of a character.
int64_t ByteOf(const std::string& text, int64_t character) {
  size_t byte = 0;
  for (; character > 0; --character) byte += Utf8Length(text, byte);
  return static_cast<int64_t>(byte);
}

std::vector<TaskRow> ReadSquad(const std::string& path) {
  std::vector<TaskRow> rows;
  const Json file = ReadJsonFile(path);
  for (const Json& article : file.At("data").AsArray()) {
    for (const Json& paragraph : article.At("paragraphs").AsArray()) {
      for (const Json& question : paragraph.At("qas").AsArray()) {
        TaskRow& row = rows.emplace_back();
        row.source = row.id = question.At("id").AsString();
        row.first = question.At("question").AsString();
        row.second = paragraph.At("context").AsString();
        row.labelled = true;
        for (const Json& answer : question.At("answers").AsArray()) {
          const int64_t begin = ByteOf(*row.second, answer.At("answer_start").AsInt());
          row.answers.push_back({answer.At("text").AsString(), begin});
        }
      }
    }
  }
  return rows;
}

// As SQuAD's exact match reads an answer, except for the articles.
std::string Words(const std::string& text) {
  std::string words;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) {
      words += c;
    } else if (std::isspace(byte) != 0) {
      if (!words.empty() && words.back() != ' ') words += ' ';
    } else if (std::ispunct(byte) == 0) {
      words += static_cast<char>(std::tolower(byte));
    }
  }
  while (words.ends_with(' ')) words.pop_back();
  return words;
}

struct Share {
  int64_t questions = 0, same_text = 0, same_words = 0;
};

Share HitBy(const Tokenizer& tokenizer, std::shared_ptr<const Tokenizer> shared, const EncoderTaskOptions& options) {
  TaskType type = {};
  type.name = "squad";
  type.form = TaskForm::kSpan;
  const auto rows = std::make_shared<const std::vector<TaskRow>>(ReadSquad(DataFolder() + "/squad/dev-v1.1.json"));
  const auto examples = MakeEncoderExamples(type, rows, std::move(shared), options, 0, TextSource::Order::kSequential);
  const EncoderRows form(tokenizer, options);
  Share share;
  int64_t place = 0;
  for (const TaskRow& row : *rows) {
    const std::vector<TokenSpan> question = tokenizer.EncodeSpans(row.first);
    const std::vector<TokenSpan> passage = tokenizer.EncodeSpans(*row.second);
    std::vector<WindowScores> windows;
    for (const PassageWindow& window : form.Windows(std::ssize(question), std::ssize(passage))) {
      Batch batch = examples->EmptyBatch(1);
      examples->Write(place++, 0, batch, 0);
      const size_t length = form.Window(question, passage, window).tokens.size();
      WindowScores& scores =
          windows.emplace_back(WindowScores{window, form.PassageAt(std::ssize(question)),
                                            std::vector<double>(length, 0), std::vector<double>(length, 0)});
      scores.starts.at(batch.Get("start_positions").data<int32_t>()[0]) = 9;
      scores.ends.at(batch.Get("end_positions").data<int32_t>()[0]) = 9;
    }
    const BestSpan best = FindBestSpan(windows, options);
    const std::string text = SpanText(*row.second, passage, best.tokens.value());
    ++share.questions;
    bool same_text = false, same_words = false;
    for (const TaskAnswer& answer : row.answers) {
      same_text = same_text || text == answer.text;
      same_words = same_words || Words(text) == Words(answer.text);
    }
    share.same_text += same_text;
    share.same_words += same_words;
  }
  EXPECT_EQ(place, examples->num_places());
  return share;
}

void Expect(const Share& share, const char* what, double text, double words) {
  const auto percent = [&](int64_t count) {
    return 100 * static_cast<double>(count) / static_cast<double>(share.questions);
  };
  std::cout << what << ": " << share.questions << " questions; the very text of " << percent(share.same_text)
            << " %, its words of " << percent(share.same_words) << " %\n";
  EXPECT_GT(percent(share.same_text), text) << what;
  EXPECT_GT(percent(share.same_words), words) << what;
}

TEST(SquadSpansTest, LabelsMapBackToTheAnswersText) {
  if (DataFolder().empty()) GTEST_SKIP() << "CROSSTALK_DATA is not set: it names the folder of SQuAD";
  const std::string bert = DataFolder() + "/fixtures/bert-base-uncased/vocab.txt";
  const std::string albert = DataFolder() + "/fixtures/albert";
  const std::shared_ptr<const Tokenizer> pieces = OpenTokenizer(bert, 0), sentence_pieces = OpenTokenizer(albert, 0);
  Expect(HitBy(*pieces, pieces, {}), "WordPiece, 384", 99.5, 99.5);
  Expect(HitBy(*pieces, pieces, {.input_length = 128, .window_stride = 32}), "WordPiece, 128", 99.5, 99.5);
  Expect(HitBy(*sentence_pieces, sentence_pieces, {}), "SentencePiece, 384", 99.5, 99.5);
  const std::shared_ptr<const Tokenizer> bytes = MakeByteTokenizer(0, MaskTokens::kYes);
  Expect(HitBy(*bytes, bytes, {.input_length = 512, .query_length = 128, .answer_length = 150}), "bytes, 512", 99.5,
         99.5);
}

constexpr const char* kPassage = "In 1862, the U.S. Army (of 3.5 million) won: \"the Keck-built\u00A0fort\" fell.";

TEST(SpacedAnswerTest, AnAnswerReadsAsInThePassage) {
  for (const char* answer : {"U.S. Army", "1862", "3.5 million", "Keck-built", "(of 3.5",
                             "\"the Keck-built\u00A0fort\"", "In 1862, the U.S.", "fell.", "."}) {
    EXPECT_EQ(UnspacedAnswer(SpacedPunctuation(answer), kPassage), answer);
    EXPECT_EQ(UnspacedAnswer(answer, kPassage), answer);
  }
}

TEST(SpacedAnswerTest, WhatStandsNowhereStaysAsItIs) {
  EXPECT_EQ(UnspacedAnswer(" U . S . Navy\n", kPassage), "U . S . Navy");
  EXPECT_EQ(UnspacedAnswer("Ar my", kPassage), "Ar my");
  EXPECT_EQ(UnspacedAnswer("mil lion", kPassage), "mil lion");
  EXPECT_EQ(UnspacedAnswer("the U . S", "the U.S."), "the U.S");
  EXPECT_EQ(UnspacedAnswer(" ", kPassage), "");
  EXPECT_EQ(UnspacedAnswer("x", ""), "x");
}

}  // namespace squad_test
}  // namespace crosstalk
