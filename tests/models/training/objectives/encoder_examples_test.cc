#include "crosstalk/models/training/objectives/encoder_examples.h"

#include "tests/support/messages.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::encoder_examples_test {

using Ids = std::vector<int32_t>;
using testing::MessageOf;
constexpr auto Bytes = EncoderBytes;

constexpr int32_t kCls = 259, kSep = 260;
TaskRow Row(const std::string& first, std::optional<std::string> second = std::nullopt) {
  TaskRow row;
  row.source = "test.tsv, line 7";
  row.id = first;
  row.first = first;
  row.second = std::move(second);
  row.labelled = true;
  return row;
}

TaskRow Question(const std::string& question, const std::string& passage, const std::string& answer, int64_t begin) {
  TaskRow row = Row(question, passage);
  row.answers = {{answer, begin}};
  return row;
}

std::unique_ptr<ExampleSource> Make(const TaskType& type, const std::vector<TaskRow>& rows,
                                    const EncoderTaskOptions& options,
                                    TextSource::Order order = TextSource::Order::kSequential,
                                    std::shared_ptr<const Tokenizer> tokenizer = Bytes(), uint64_t seed = 3) {
  return MakeEncoderExamples(type, std::make_shared<const std::vector<TaskRow>>(rows), std::move(tokenizer), options,
                             seed, order);
}

// "C" [CLS], "S" [SEP], "." padding, and bytes as they are.
std::string Shown(const Tensor& ids) {
  std::string text;
  for (const int32_t id : ids.Contiguous().ToVector<int32_t>()) {
    text += id == 0 ? '.' : id == kCls ? 'C' : id == kSep ? 'S' : static_cast<char>(id - 3);
  }
  return text;
}

TEST(EncoderExamplesTest, TextsAreCutFromTheLongerOnesEnd) {
  TaskRow one = Row("abcdefgh", "xy");
  one.label = 1;
  const auto source = Make(TaskOfForm(TaskForm::kClassification, {"no", "yes"}), {one, Row("pq"), Row("kl", "mno")},
                           {.input_length = 9});
  ASSERT_EQ(source->num_places(), 3);
  Batch batch = source->EmptyBatch(4);
  EXPECT_EQ(batch.positions, 4);
  for (int64_t i = 0; i < 3; ++i) source->Write(i, i, batch, i);
  EXPECT_EQ(Shown(batch.Get("inputs")),
            "CabcdSxyS"
            "CpqS....."
            "CklSmnoS."
            ".........");
  EXPECT_EQ(batch.Get("segments").ToVector<int32_t>(), (Ids{0, 0, 0, 0, 0, 0, 1, 1, 1,  //
                                                            0, 0, 0, 0, 0, 0, 0, 0, 0,  //
                                                            0, 0, 0, 0, 1, 1, 1, 1, 0,  //
                                                            0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(batch.Get("labels").ToVector<int32_t>(), (Ids{1, 0, 0, 0}));
  EXPECT_EQ(batch.targets, 3);
  EXPECT_EQ(batch.tokens, 9 + 4 + 8);
  EXPECT_EQ(source->Answers().at(0).tensor, std::string("labels"));
  // Finished, a batch is as long as its longest row.
  Batch shorter = source->EmptyBatch(2);
  source->Write(1, 1, shorter, 0);
  source->Write(2, 2, shorter, 1);
  shorter = source->Finished(shorter);
  EXPECT_EQ(Shown(shorter.Get("inputs")),
            "CpqS...."
            "CklSmnoS");
  EXPECT_EQ(shorter.Get("segments").ToVector<int32_t>(), (Ids{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1}));
}

TEST(EncoderExamplesTest, ARegressionHasItsScores) {
  TaskRow one = Row("a", "b"), two = Row("c", "d");
  one.number = 3.8;
  two.number = -0.25;
  const auto source = Make(TaskOfForm(TaskForm::kRegression), {one, two}, {.input_length = 8});
  Batch batch = source->EmptyBatch(2);
  source->Write(1, 0, batch, 0);
  source->Write(0, 0, batch, 1);
  EXPECT_EQ(batch.Get("scores").ToVector<float>(), (std::vector<float>{-0.25f, 3.8f}));
  EXPECT_FALSE(batch.Has("labels"));
  EXPECT_TRUE(source->Answers().empty());
}

TEST(EncoderExamplesTest, ChoicesAreRowsAndFewerAreCounted) {
  TaskRow two = Row("ab");
  two.choices = {{"p", "A"}, {"", "B"}};
  two.label = 1;
  TaskRow three = Row("c");
  three.choices = {{"x", "A"}, {"y", "B"}, {"zzzz", "C"}};
  const auto source = Make(TaskOfForm(TaskForm::kMultipleChoice), {two, three}, {.input_length = 6});
  Batch batch = source->EmptyBatch(2);
  ASSERT_EQ(batch.Get("inputs").shape(), Shape({2, 3, 6}));
  for (int64_t i = 0; i < 2; ++i) source->Write(i, i, batch, i);
  EXPECT_EQ(Shown(batch.Get("inputs")),
            "CabSpS"
            "CabS.."
            "......"
            "CcSxS."
            "CcSyS."
            "CcSzzS");
  EXPECT_EQ(batch.Get("segments").Select(0, 0).ToVector<int32_t>(),
            (Ids{0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(batch.Get("choice_counts").ToVector<int32_t>(), (Ids{2, 3}));
  EXPECT_EQ(batch.Get("labels").ToVector<int32_t>(), (Ids{1, 0}));
  EXPECT_EQ(batch.targets, 2);
  EXPECT_EQ(batch.tokens, 6 + 4 + 5 + 5 + 6);
  Batch last = EmptyEncoderBatch({TaskForm::kMultipleChoice, 6, 2}, 0, 1);
  source->Write(0, 0, last, 0);
  EXPECT_EQ(source->Finished(last).Get("inputs").shape(), Shape({1, 2, 6}));
  // A batch for rows of more choices does too; one for fewer does not.
  Batch wider = EmptyEncoderBatch({TaskForm::kMultipleChoice, 6, 5}, 0, 1);
  source->Write(0, 0, wider, 0);
  EXPECT_EQ(Shown(wider.Get("inputs")),
            "CabSpS"
            "CabS.."
            "......"
            "......"
            "......");
  Batch narrower = EmptyEncoderBatch({TaskForm::kMultipleChoice, 6, 2}, 0, 1);
  EXPECT_EQ(MessageOf([&] { source->Write(1, 0, narrower, 0); }),
            "encoder examples: inputs[1, 2, 6] are too few for 3 choices of 6 tokens");
}

using Ranges = std::vector<std::pair<int64_t, int64_t>>;
Ranges Windows(int64_t tokens, int64_t room, int64_t stride) {
  Ranges windows;
  for (const PassageWindow& window : LayWindows(tokens, room, stride)) windows.push_back({window.begin, window.end});
  return windows;
}

// Never further apart than they are long.
TEST(EncoderExamplesTest, WindowsEndWithTheFirstThatReachesThePassagesEnd) {
  const struct {
    int64_t tokens, room, stride;
    Ranges windows;
  } kCases[] = {{0, 10, 4, {{0, 0}}},
                {1, 10, 4, {{0, 1}}},
                {10, 10, 4, {{0, 10}}},
                {11, 10, 4, {{0, 10}, {4, 11}}},
                {14, 10, 4, {{0, 10}, {4, 14}}},
                {15, 10, 4, {{0, 10}, {4, 14}, {8, 15}}},
                {7, 3, 128, {{0, 3}, {3, 6}, {6, 7}}},
                {3, 1, 1, {{0, 1}, {1, 2}, {2, 3}}}};
  for (const auto& [tokens, room, stride, windows] : kCases)
    EXPECT_EQ(Windows(tokens, room, stride), windows) << tokens;
}

TEST(EncoderExamplesTest, AWindowLearnsTheAnswerThatItHoldsElseCls) {
  const TaskType type = TaskOfForm(TaskForm::kSpan);
  const std::string passage = "abcdefghijklmnopqrstuvwxyz";
  const EncoderTaskOptions options = {.input_length = 16, .window_stride = 4, .query_length = 3};
  constexpr int64_t kRoom = 16 - 3 - 3;
  for (const int64_t length : {1, 2, 5, 10, 11, 26}) {
    for (int64_t begin = 0; begin + length <= std::ssize(passage); ++begin) {
      const std::string answer = passage.substr(begin, length);
      const auto source = Make(type, {Question("who is it", passage, answer, begin)}, options);
      const auto windows = Windows(26, kRoom, 4);
      ASSERT_EQ(source->num_places(), std::ssize(windows));
      Batch batch = source->EmptyBatch(1);
      int64_t held = 0;
      for (int64_t i = 0; i < source->num_places(); ++i) {
        batch = source->EmptyBatch(1);
        source->Write(i, 0, batch, 0);
        const std::string row = Shown(batch.Get("inputs"));
        const auto [from, to] = windows[i];
        ASSERT_EQ(row.substr(0, 6 + to - from), "CwhoS" + passage.substr(from, to - from) + "S");
        const int64_t start = batch.Get("start_positions").data<int32_t>()[0];
        const int64_t end = batch.Get("end_positions").data<int32_t>()[0];
        if (begin < from || begin + length > to) {
          EXPECT_EQ(start, 0);
          EXPECT_EQ(end, 0);
        } else {
          EXPECT_EQ(row.substr(start, end - start + 1), answer) << begin << ", window " << i;
          ++held;
        }
      }
      // All but an answer that is longer than a window, or than what two of them have in common, is held somewhere.
      EXPECT_TRUE(held > 0 || length > kRoom - 4) << answer;
      EXPECT_TRUE(held == 0 || length <= kRoom);
    }
  }
}

TEST(EncoderExamplesTest, WhatHasNoAnswerLearnsClsAndOfSeveralTheFirstThatStandsThere) {
  TaskRow none = Question("q", "abc", "", 0);
  none.answers.clear();
  TaskRow several = Question("q", "abc", "", 0);
  several.answers = {{"xyz", std::nullopt}, {"bc", 1}, {"a", 0}};
  TaskRow empty = none;
  empty.second = "";
  const auto source = Make(TaskOfForm(TaskForm::kSpan), {none, several, empty}, {.input_length = 9});
  Batch batch = source->EmptyBatch(3);
  for (int64_t i = 0; i < 3; ++i) source->Write(i, i, batch, i);
  EXPECT_EQ(Shown(batch.Get("inputs")),
            "CqSabcS.."
            "CqSabcS.."
            "CqSS.....");
  EXPECT_EQ(batch.Get("start_positions").ToVector<int32_t>(), (Ids{0, 4, 0}));
  EXPECT_EQ(batch.Get("end_positions").ToVector<int32_t>(), (Ids{0, 5, 0}));
}

// A token that shares a byte with the answer is of it, whatever of the answer the tokenizer drops.
TEST(EncoderExamplesTest, AnswersAreTheTokensThatShareTheirBytes) {
  const std::shared_ptr<const Tokenizer> bert =
      LoadTokenizer("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncafe\nnoir\n##s\n\xE4\xB8\xAD\nx\n,\n", "vocab.txt", 0);
  const std::string passage = "x Caf\xC3\xA9s, noir \xE4\xB8\xADx \xF0\x9F\x98\x80 Cafe\xCC\x81";
  //                           0 2 3 4 5  7 8  10     15         18 20           25
  // Where the answer begins, its bytes, and its first and last token of: x, cafe, ##s, ",", noir, 中, x, [UNK], cafe.
  constexpr int kCases[][4] = {{0, 1, 0, 0},  {2, 6, 1, 2},  {2, 5, 1, 1},  {6, 1, 1, 1},   {8, 1, 3, 3}, {10, 4, 4, 4},
                               {15, 3, 5, 5}, {15, 4, 5, 6}, {20, 4, 7, 7}, {20, 11, 7, 8}, {25, 6, 8, 8}};
  for (const auto& [begin, length, first, last] : kCases) {
    const auto source =
        Make(TaskOfForm(TaskForm::kSpan), {Question("x", passage, passage.substr(begin, length), begin)},
             {.input_length = 20}, TextSource::Order::kSequential, bert);
    Batch batch = source->EmptyBatch(1);
    source->Write(0, 0, batch, 0);
    EXPECT_EQ(batch.Get("start_positions").data<int32_t>()[0], 3 + first) << begin;
    EXPECT_EQ(batch.Get("end_positions").data<int32_t>()[0], 3 + last) << begin;
  }
}

TEST(EncoderExamplesTest, APassHasEachExampleOnceAndIsAFunctionOfSeedAndPass) {
  std::vector<TaskRow> rows;
  for (int i = 0; i < 20; ++i) rows.push_back(Row(std::string(1, static_cast<char>('a' + i))));
  const TaskType type = TaskOfForm(TaskForm::kClassification, {"it"});
  const auto pass = [&](uint64_t seed, int64_t number) {
    const auto source = Make(type, rows, {.input_length = 3}, TextSource::Order::kShuffled, Bytes(), seed);
    std::string order;
    for (int64_t i = 0; i < 20; ++i) {
      Batch batch = source->EmptyBatch(1);
      source->Write(number * 20 + i, 99, batch, 0);
      order += Shown(batch.Get("inputs"))[1];
    }
    return order;
  };
  const std::string first = pass(1, 0);
  EXPECT_EQ(std::set<char>(first.begin(), first.end()).size(), 20u);
  EXPECT_EQ(first, pass(1, 0));
  EXPECT_NE(first, pass(1, 1));
  EXPECT_NE(first, pass(2, 0));
}

TEST(EncoderExamplesTest, WhatCannotBeLearntIsNamed) {
  const TaskType classes = TaskOfForm(TaskForm::kClassification, {"no", "yes"}), span = TaskOfForm(TaskForm::kSpan);
  TaskRow third = Row("a", "b"), unlabelled = third, huge = third, elsewhere = Question("a", "abc", "x", 0);
  third.label = 2;
  unlabelled.labelled = false;
  huge.number = 1e300;
  elsewhere.answers[0].begin.reset();
  struct Learnt {
    TaskType type;
    TaskRow row;
    EncoderTaskOptions options = {.input_length = 16};
    std::shared_ptr<const Tokenizer> tokenizer = Bytes();
  };
  const auto learn = [](const Learnt& one) {
    Make(one.type, {one.row}, one.options, TextSource::Order::kSequential, one.tokenizer);
  };
  testing::ExpectRefused<Learnt>(
      {{"a label", {classes, third}, {"test.tsv, line 7: the label 2 is none of 2"}},
       {"no choice", {TaskOfForm(TaskForm::kMultipleChoice), Row("")}, {"line 7: the label 0 is none of 0"}},
       {"no label", {classes, unlabelled}, {"line 7: has no label to learn"}},
       {"a score", {TaskOfForm(TaskForm::kRegression), huge}, {"line 7: the score is not a finite number"}},
       {"no passage", {span, Row("a")}, {"line 7: has no text that an answer could stand in"}},
       {"a place", {span, Question("a", "abc", "cd", 2)}, {"line 7: the answer at byte 2 is not within its text"}},
       {"elsewhere", {span, elsewhere}, {"line 7: no answer stands in its text"}},
       {"no token", {span, Question("a", "abc", "", 1)}, {"line 7: the tokenizer leaves nothing of the answer"}}},
      learn, ErrorKind::kData);
  testing::ExpectRefused<Learnt>(
      {{"a question",
        {span, Question("abcdefgh", "abc", "a", 0), {.input_length = 11}},
        {"input_length: 11 leaves no room for a passage: a question of 8 tokens and the special ones take 11"}},
       {"a length",
        {classes, Row("a"), {.input_length = 2}},
        {"input_length: 2 is less than 3, the special tokens of a pair of texts"}},
       {"no [CLS]",
        {classes, Row("a"), {}, MakeByteTokenizer()},
        {"tokenizer: the bytes tokenizer has no [CLS] token, which an encoder's rows need"}},
       {"a stride", {span, Row("a"), {.window_stride = 0}}, {"window_stride: 0 is less than 1"}}},
      learn);
}

}  // namespace crosstalk::encoder_examples_test
