// SQuAD's real questions, from answers to labels of windows and back to text: what a model that is always right scores.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/tasks/encoder_rows.h"
#include "crosstalk/models/training/objectives/encoder_examples.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace squad_spans_test {

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

}  // namespace squad_spans_test
}  // namespace crosstalk
