#include "crosstalk/models/training/objectives/task_head.h"

#include <charconv>

#include "crosstalk/models/bert/bert.h"
#include "crosstalk/models/training/loop.h"
#include "crosstalk/models/training/objectives/batches.h"
#include "crosstalk/models/training/objectives/encoder_examples.h"
#include "crosstalk/nn/optim/adam.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/random.h"
#include "tests/support/messages.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::task_head_test {

using testing::MessageOf;
constexpr auto Bytes = EncoderBytes;

ModelConfig Config(const EncoderHeads& heads, const std::string& kind = "talking") {
  ModelConfig config = For(*Bytes(), TinyBert(kind, heads, 24));
  config.d_ff = 48;
  config.initial_stddev = 0.1;
  return config;
}

struct Task {
  TaskType type;
  EncoderHeads heads;
};
const std::vector<Task>& Tasks() {
  static const std::vector<Task> tasks = {
      {TaskOfForm(TaskForm::kClassification, {"no", "yes", "maybe"}), {.pooler = true, .classes = 3}},
      {TaskOfForm(TaskForm::kRegression), {.pooler = true, .classes = 1}},
      {TaskOfForm(TaskForm::kMultipleChoice), {.pooler = true, .multiple_choice = true}},
      {TaskOfForm(TaskForm::kSpan), {.span = true}}};
  return tasks;
}

std::string RandomText(int64_t most, RandomSequence& random) {
  std::string text;
  for (uint64_t left = 1 + random.UniformInt(most); left > 0; --left) {
    text += static_cast<char>('a' + random.UniformInt(26));
  }
  return text;
}

// Rows of all lengths that serve each form.
std::vector<TaskRow> RandomRows(int64_t count) {
  RandomSequence random(RandomKey{5, StreamId("encoder_answers_test"), 0});
  std::vector<TaskRow> rows;
  for (int64_t i = 0; i < count; ++i) {
    TaskRow& row = rows.emplace_back();
    row.source = row.id = "row " + std::to_string(i);
    row.first = RandomText(20, random);
    row.second = RandomText(90, random);
    for (uint64_t k = 2 + random.UniformInt(4); k > 0; --k) {
      row.choices.push_back({RandomText(30, random), "choice " + std::to_string(k)});
    }
  }
  return rows;
}

const EncoderTaskOptions kOptions = {.input_length = 40, .window_stride = 7, .query_length = 12};

bool operator==(const TaskPrediction& a, const TaskPrediction& b) {
  return a.id == b.id && a.answer == b.answer && a.no_answer == b.no_answer;
}

TEST(EncoderAnswersTest, AnAnswerDependsOnItsRowAlone) {
  const std::vector<TaskRow> rows = RandomRows(140);
  for (const char* kind : {"multihead", "talking", "dynamic"}) {
    for (const Task& task : Tasks()) {
      const Bert model(Config(task.heads, kind), 3);
      int64_t told = 0;
      const Observer observer = {{}, [&](int64_t done, int64_t all) {
                                   EXPECT_EQ(all, 140);
                                   EXPECT_GT(done, told);
                                   told = done;
                                 }};
      const auto together = AnswerWithHead(model, *Bytes(), task.type, rows, kOptions, observer);
      ASSERT_EQ(together.size(), rows.size());
      EXPECT_EQ(told, 140);
      for (size_t i = 0; i < rows.size(); i += 27) {
        const auto alone = AnswerWithHead(model, *Bytes(), task.type, {rows[i]}, kOptions);
        EXPECT_TRUE(alone.at(0) == together[i]) << kind << ", form " << static_cast<int>(task.type.form) << ", " << i;
      }
      for (const int threads : {1, 2, 3, 5, 8}) {
        const ThreadsScope scope(threads);
        const auto again = AnswerWithHead(model, *Bytes(), task.type, {rows.begin(), rows.begin() + 6}, kOptions);
        for (size_t i = 0; i < again.size(); ++i) EXPECT_TRUE(again[i] == together[i]) << kind << threads << " " << i;
      }
    }
  }
}

// Sums so long that a product of few positions alone would be cut into slices (d_ff >= 8192, d_model <= 64). Answers to
// a regression and to a span have every bit of the logits.
TEST(EncoderAnswersTest, ALongSumDependsOnItsRowAloneToo) {
  const std::vector<TaskRow> rows = RandomRows(12);
  for (const size_t form : {1, 3}) {
    const Task& task = Tasks()[form];
    ModelConfig config = Config(task.heads);
    config.d_ff = 8192;
    config.layers = 1;
    const Bert model(config, 3);
    const auto together = AnswerWithHead(model, *Bytes(), task.type, rows, kOptions);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto alone = AnswerWithHead(model, *Bytes(), task.type, {rows[i]}, kOptions);
      EXPECT_TRUE(alone.at(0) == together[i]) << "form " << form << ", " << i;
    }
  }
}

TEST(EncoderAnswersTest, AnswersAreWhatTheOutputsSay) {
  TaskRow row = RandomRows(1)[0];
  row.first = "who";
  row.second = "anna and b";
  const EncodedPair pair = EncodePair(*Bytes(), row.first, row.second);
  const auto n = std::ssize(pair.tokens);
  const auto outputs = [&](const EncoderHeads& heads, const char* name, bool doubles) {
    const Bert model(Config(heads), 3, doubles ? DType::kFloat64 : DType::kFloat32);
    Batch batch;
    std::vector<int32_t> ids, segments;
    for (const EncodedPair::Token& token : pair.tokens) {
      ids.push_back(token.id);
      segments.push_back(token.segment);
    }
    batch.Add("input_ids", Tensor::FromValues<int32_t>({1, n}, ids));
    batch.Add("token_type_ids", Tensor::FromValues<int32_t>({1, n}, segments));
    for (const NamedVariable& one : model.Outputs(batch, OutputDetail::kResults, {})) {
      if (one.name == name) return one.value.value().To(DType::kFloat64).ToVector<double>();
    }
    return std::vector<double>();
  };
  const auto answer = [&](const Task& task, bool doubles) {
    const Bert model(Config(task.heads), 3, doubles ? DType::kFloat64 : DType::kFloat32);
    return AnswerWithHead(model, *Bytes(), task.type, {row}, kOptions).at(0);
  };
  for (const bool doubles : {false, true}) {
    const std::vector<double> logits = outputs(Tasks()[0].heads, "logits", doubles);
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    EXPECT_EQ(answer(Tasks()[0], doubles).answer, Tasks()[0].type.labels[best]);
    // Read back as the type that it is of, it is the number that the padded row has, which is this one except for
    // rounding.
    const double number = outputs(Tasks()[1].heads, "logits", doubles).at(0);
    const std::string text = answer(Tasks()[1], doubles).answer;
    double read = 0;
    ASSERT_EQ(std::from_chars(text.data(), text.data() + text.size(), read).ptr, text.data() + text.size());
    EXPECT_NEAR(read, number, doubles ? 1e-14 : 1e-6);
    EXPECT_LE(text.size(), doubles ? 24u : 15u) << text;

    const std::vector<double> starts = outputs(Tasks()[3].heads, "start_logits", doubles);
    const std::vector<double> ends = outputs(Tasks()[3].heads, "end_logits", doubles);
    double most = -1e9;
    std::string expected;
    for (int64_t i = 5; i < n - 1; ++i) {
      for (int64_t j = i; j < n - 1; ++j) {
        if (starts[i] + ends[j] <= most) continue;
        most = starts[i] + ends[j];
        expected = row.second->substr(i - 5, j - i + 1);
      }
    }
    const TaskPrediction span = answer(Tasks()[3], doubles);
    EXPECT_EQ(span.answer, expected.substr(0, expected.find_last_not_of(' ') + 1));
    EXPECT_NEAR(span.no_answer.value(), 1 / (1 + std::exp(most - starts[0] - ends[0])), doubles ? 1e-14 : 1e-6);
  }
}

TEST(EncoderAnswersTest, WhatIsEqualGoesToTheFirst) {
  const TaskRow row = RandomRows(1)[0];
  for (const Task& task : Tasks()) {
    const Bert model(Config(task.heads), 3);
    for (const NamedParameter& parameter : model.Parameters()) {
      if (parameter.name.find("encoder") == std::string::npos) parameter.value.value().Fill(0);
    }
    const TaskPrediction answer = AnswerWithHead(model, *Bytes(), task.type, {row}, kOptions).at(0);
    switch (task.type.form) {
      case TaskForm::kClassification:
        EXPECT_EQ(answer.answer, "no");
        break;
      case TaskForm::kRegression:
        EXPECT_EQ(answer.answer, "0");
        break;
      case TaskForm::kMultipleChoice:
        EXPECT_EQ(answer.answer, row.choices[0].answer);
        break;
      case TaskForm::kSpan:
        EXPECT_EQ(answer.answer, row.second->substr(0, 1));
        EXPECT_EQ(answer.no_answer, kEvenNoAnswer);
    }
    EXPECT_EQ(answer.id, row.id);
  }
}

// Trains a tiny BERT on rows until it knows them.
std::vector<TaskPrediction> Learnt(const Task& task, std::vector<TaskRow> rows, int64_t steps,
                                   const EncoderTaskOptions& options) {
  for (TaskRow& row : rows) row.labelled = true;
  const Bert model(Config(task.heads, "multihead"), 3);
  const std::shared_ptr<const ExampleSource> examples =
      MakeEncoderExamples(task.type, std::make_shared<const std::vector<TaskRow>>(rows), Bytes(), options, 1);
  const auto batches = MakeTrainingBatches(examples, 8, 1);
  AdamW optimizer(model.Parameters(), {});
  LoopOptions training;
  training.schedule = {.kind = ScheduleKind::kConstant, .scale = 3e-3, .warmup_steps = 1};
  LocalReducer reducer;
  Loop(model, *batches, optimizer, reducer, training).Train(steps);
  for (TaskRow& row : rows) row.labelled = false;
  return AnswerWithHead(model, *Bytes(), task.type, rows, options);
}

TEST(EncoderAnswersTest, ATinyBertLearnsClassesNumbersAndChoices) {
  std::vector<TaskRow> classes = RandomRows(16), numbers = classes, choices = RandomRows(12);
  for (size_t i = 0; i < 16; ++i) {
    classes[i].label = static_cast<int64_t>(i % 3);
    numbers[i].number = static_cast<double>(i % 6);
    if (i < 12) choices[i].label = static_cast<int64_t>(i % choices[i].choices.size());
  }
  const auto labels = Learnt(Tasks()[0], classes, 80, {.input_length = 32}),
             scores = Learnt(Tasks()[1], numbers, 220, {.input_length = 32}),
             chosen = Learnt(Tasks()[2], choices, 60, {.input_length = 24});
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(labels[i].answer, Tasks()[0].type.labels[i % 3]) << i;
    EXPECT_NEAR(std::stod(scores[i].answer), numbers[i].number, 0.5) << i;
  }
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(chosen[i].answer, choices[i].choices[choices[i].label].answer) << i;
}

// Passages longer than a window, a question that has no answer among them.
TEST(EncoderAnswersTest, ATinyBertLearnsSpans) {
  std::vector<TaskRow> rows = RandomRows(12);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto size = std::ssize(*rows[i].second);
    const int64_t begin = static_cast<int64_t>(i) * 5 % size, length = std::min<int64_t>(3, size - begin);
    if (i % 4 != 3) rows[i].answers = {{rows[i].second->substr(begin, length), begin}};
  }
  auto answers = Learnt(Tasks()[3], rows, 150, {.input_length = 40, .window_stride = 12, .query_length = 8});
  EmptyAnswersAbove(kEvenNoAnswer, &answers);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(answers[i].answer, rows[i].answers.empty() ? "" : rows[i].answers[0].text) << i;
  }
}

TEST(EncoderAnswersTest, AThresholdEmptiesWhatIsAboveIt) {
  std::vector<TaskPrediction> predictions = {{"a", "x", 0.5}, {"b", "y", 0.50001}, {"c", "z", std::nullopt}};
  EmptyAnswersAbove(0.5, &predictions);
  EXPECT_EQ(predictions[0].answer, "x");
  EXPECT_EQ(predictions[1].answer, "");
  EXPECT_EQ(predictions[2].answer, "z");
  TaskType type = TaskOfForm(TaskForm::kSpan);
  EXPECT_EQ(MessageOf([&] { BestNoAnswerThreshold(type, {}, {}); }), "the score of test finds no threshold");
  type.score = [](const TaskType&, const std::vector<TaskRow>&, const std::vector<TaskPrediction>&) {
    return std::vector<Metric>{{"best_exact_thresh", 1}, {"best_f1_thresh", 0.25}};
  };
  EXPECT_EQ(BestNoAnswerThreshold(type, {}, {}), 0.25);
}

TEST(EncoderAnswersTest, AModelThatCannotAnswerIsRefused) {
  const std::vector<TaskRow> rows = RandomRows(3);
  struct Asked {
    EncoderHeads heads;
    size_t task;
    std::shared_ptr<const Tokenizer> tokenizer = Bytes();
  };
  testing::ExpectRefused<Asked>(
      {{"classes", {{.pooler = true, .classes = 2}, 0}, {"the model's head has 2 classes, but test has 3"}},
       {"a number", {{.span = true}, 1}, {"the model has no head for the regression of test"}},
       {"choices", {{.span = true}, 2}, {"the model has no head for the choices of test"}},
       {"a span", {{}, 3}, {"the model has no head for the spans of test"}},
       {"no [CLS]",
        {{.span = true}, 3, MakeByteTokenizer()},
        {"tokenizer: the bytes tokenizer has no [CLS] token, which an encoder's rows need"}}},
      [&](const Asked& one) {
        AnswerWithHead(Bert(Config(one.heads), 3), *one.tokenizer, Tasks()[one.task].type, rows, kOptions);
      });
  const Bert model(Config({.span = true}), 3);
  const auto answer = [&](const Observer& observer) {
    return [&, observer] { AnswerWithHead(model, *Bytes(), Tasks()[3].type, rows, kOptions, observer); };
  };
  testing::ExpectError(answer({[] { return true; }, {}}), ErrorKind::kFailure, {"interrupted"});
  model.Parameters().back().value.value().Fill(std::numeric_limits<double>::infinity());
  testing::ExpectError(answer({}), ErrorKind::kNumerical,
                       {"the model's answers are not finite: its parameters have diverged"});
}

}  // namespace crosstalk::task_head_test
