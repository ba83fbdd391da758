#include "crosstalk/models/training/objectives/text_to_text.h"

#include <cmath>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/objectives/batches.h"
#include "tests/support/messages.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::text_to_text_test {

using Ids = std::vector<int32_t>;

TaskRow Row(const std::string& input, const std::string& target) {
  TaskRow row;
  row.id = input;
  row.input = input;
  row.targets = {target};
  row.labelled = true;
  return row;
}

std::shared_ptr<const TaskSet> Tasks(const std::vector<TaskRow>& rows, const char* task = "sst-2") {
  auto set = std::make_shared<TaskSet>();
  TaskData data;
  data.type = &FindTask(task);
  data.train = std::make_shared<std::vector<TaskRow>>(rows);
  data.train_file = "train.tsv";
  set->tasks.push_back(data);
  return set;
}

TrainingConfig Config(const std::string& model = "t5") {
  TrainingConfig config = TinyConfigOf(model);
  config.objective = {};
  config.objective.name = model == "t5" ? "text-to-text" : "prompt-completion";
  config.objective.tasks = "sst-2";
  config.objective.task_data = "unused";
  config.objective.input_length = 8;
  config.objective.target_length = 4;
  return config;
}

// Byte b is b + 3, </s> 1, pad 0.
std::shared_ptr<const Tokenizer> Bytes() { return MakeByteTokenizer(); }

std::shared_ptr<const ExampleSource> Make(const std::vector<TaskRow>& rows, const char* task = "sst-2",
                                          const std::string& model = "t5",
                                          std::shared_ptr<const Tokenizer> tokenizer = Bytes()) {
  const TrainingConfig config = Config(model);
  return ObjectiveOf(config).make(
      config.objective, {.text = nullptr, .tokenizer = std::move(tokenizer), .seed = 1, .tasks = Tasks(rows, task)});
}

TEST(TextToTextTest, ARowIsItsTextsWithAnEndAsLongAsTheBatchHas) {
  const auto examples = Make({Row("abc", "A"), Row("a", "BC")});
  EXPECT_EQ(examples->num_places(), 2);
  const auto batches = MakeTrainingBatches(examples, 2, 1);
  const Batch batch = batches->Get(0, 0);
  EXPECT_EQ(batch.Get("inputs").shape(), Shape({2, 4}));
  EXPECT_EQ(batch.Get("targets").shape(), Shape({2, 3}));
  const Ids inputs = batch.Get("inputs").ToVector<int32_t>(), targets = batch.Get("targets").ToVector<int32_t>();
  const Ids abc = {'a' + 3, 'b' + 3, 'c' + 3, 1, 'a' + 3, 1, 0, 0},
            a = {'a' + 3, 1, 0, 0, 'a' + 3, 'b' + 3, 'c' + 3, 1};
  const Ids A = {'A' + 3, 1, 0, 'B' + 3, 'C' + 3, 1}, BC = {'B' + 3, 'C' + 3, 1, 'A' + 3, 1, 0};
  EXPECT_TRUE((inputs == abc && targets == A) || (inputs == a && targets == BC));
  EXPECT_EQ(batch.targets, 5);
  EXPECT_EQ(batch.tokens, 11);
  EXPECT_EQ(batch.positions, 8);
}

// 7 bytes and the end token fit in 8.
TEST(TextToTextTest, PromptsThatLoseTheirEndsAreCounted) {
  const auto tasks = Tasks({Row("1234567", "A"), Row("12345678", "A"), Row("1", "A"), Row("123456789", "A")});
  for (const auto& [most, cut] : {std::pair(1, 0), {2, 1}, {9, 2}}) {
    const CutPrompts prompts = CountCutPrompts(Config().objective, *tasks, *Bytes(), most);
    EXPECT_EQ(prompts.cut, cut) << most;
    EXPECT_EQ(prompts.rows, std::min(most, 4));
  }
}

TEST(TextToTextTest, LongTextsLoseTheirEnds) {
  const auto examples = Make({Row("0123456789", "ABCDE")}, "squad");
  Batch batch = examples->EmptyBatch(1);
  examples->Write(0, 0, batch, 0);
  EXPECT_EQ(batch.Get("inputs").ToVector<int32_t>(),
            Ids({'0' + 3, '1' + 3, '2' + 3, '3' + 3, '4' + 3, '5' + 3, '6' + 3, 1}));
  EXPECT_EQ(batch.Get("targets").ToVector<int32_t>(), Ids({'A' + 3, 'B' + 3, 'C' + 3, 1}));
}

// A language model reads the prompt and the answer in one row, and is asked for the answer alone.
TEST(PromptCompletionTest, TheAnswerFollowsTheEndOfThePrompt) {
  const auto batches = MakeTrainingBatches(Make({Row("abc", "A"), Row("a", "BC")}, "sst-2", "lm"), 2, 1);
  const Batch batch = batches->Get(0, 0);
  const auto rows = [&](const char* name) { return batch.Get(name).ToVector<int32_t>(); };
  const auto are = [](const Ids& both, Ids first, const Ids& second) {
    first.insert(first.end(), second.begin(), second.end());
    return both == first;
  };
  const Ids abc = {'a' + 3, 'b' + 3, 'c' + 3, 1, 'A' + 3}, A = {'A' + 3, 1, -1}, after_abc = {3, 4, 0};
  const Ids a = {'a' + 3, 1, 'B' + 3, 'C' + 3, 0}, BC = {'B' + 3, 'C' + 3, 1}, after_a = {1, 2, 3};
  EXPECT_TRUE((are(rows("inputs"), abc, a) && are(rows("targets"), A, BC) &&
               are(rows("target_positions"), after_abc, after_a)) ||
              (are(rows("inputs"), a, abc) && are(rows("targets"), BC, A) &&
               are(rows("target_positions"), after_a, after_abc)));
  EXPECT_EQ(batch.targets, 5);
  EXPECT_EQ(batch.tokens, 11);
  EXPECT_EQ(batch.positions, 8);
}

TEST(PromptCompletionTest, LongTextsLoseTheirEnds) {
  const auto examples = Make({Row("0123456789", "ABCDE")}, "squad", "lm");
  Batch batch = examples->EmptyBatch(1);
  examples->Write(0, 0, batch, 0);
  EXPECT_EQ(batch.Get("inputs").ToVector<int32_t>(),
            Ids({'0' + 3, '1' + 3, '2' + 3, '3' + 3, '4' + 3, '5' + 3, '6' + 3, 1, 'A' + 3, 'B' + 3, 'C' + 3}));
  EXPECT_EQ(batch.Get("targets").ToVector<int32_t>(), Ids({'A' + 3, 'B' + 3, 'C' + 3, 1}));
  EXPECT_EQ(batch.Get("target_positions").ToVector<int32_t>(), Ids({7, 8, 9, 10}));
}

TEST(PromptCompletionTest, AVocabularyWithoutPaddingHasTheEndThere) {
  const SpecialTokens tokens = {.pad = kNoToken, .end = 7};
  const Batch batch = FindObjective("prompt-completion").empty_batch(Config("lm").objective, tokens, 2);
  EXPECT_EQ(batch.Get("inputs").ToVector<int32_t>(), Ids(2 * 11, 7));
  EXPECT_EQ(batch.Get("targets").ToVector<int32_t>(), Ids(2 * 4, kNoToken));
}

// Where padding is the end token too, an empty answer's row ends with what looks like padding.
TEST(PromptCompletionTest, NothingButPaddingIsCutOff) {
  auto examples = Make({Row("abc", "")}, "squad", "lm");
  Batch batch = examples->EmptyBatch(1);
  batch.Get("inputs").Fill(1);
  examples->Write(0, 0, batch, 0);
  batch = examples->Finished(batch);
  EXPECT_EQ(batch.Get("inputs").ToVector<int32_t>(), Ids({'a' + 3, 'b' + 3, 'c' + 3, 1}));
  EXPECT_EQ(batch.Get("targets").ToVector<int32_t>(), Ids({1}));
  EXPECT_EQ(batch.Get("target_positions").ToVector<int32_t>(), Ids({3}));
}

// -ln p of the answers' tokens and ends, each row by itself without padding; and that sum's gradients.
TEST(PromptCompletionTest, OnlyAnswersHaveLossAndGradients) {
  const auto tokenizer = Bytes();
  const Lm model(For(*tokenizer, TinyLm("talking", 0, 11)), 3, DType::kFloat64);
  const std::vector<TaskRow> rows = {Row("abc", "A"), Row("a", "BC")};
  const Batch batch = MakeTrainingBatches(Make(rows, "sst-2", "lm"), 2, 1)->Get(0, 0);
  const auto gradients = [&](const Variable& loss) {
    model.ZeroGrad();
    Backward(loss);
    std::vector<Tensor> all;
    for (const NamedParameter& parameter : model.Parameters()) all.push_back(parameter.value.grad().Clone());
    return all;
  };
  const LossResult loss = model.Loss(batch, {}, {});
  const std::vector<Tensor> actual = gradients(loss.sum);
  Variable sum;
  double nats = 0;
  for (const TaskRow& row : rows) {
    Ids ids = tokenizer->Encode(row.input), answer = tokenizer->Encode(row.targets[0]);
    ids.push_back(1), answer.push_back(1);
    const auto prompt = std::ssize(ids), m = std::ssize(answer);
    ids.insert(ids.end(), answer.begin(), answer.end() - 1);
    const Variable logits = model.Logits(model.Forward(Tensor::FromValues<int32_t>({1, std::ssize(ids)}, ids), {}));
    const Variable asked = Reshape(Slice(logits, 1, prompt - 1, prompt - 1 + m), {m, tokenizer->vocab_size()});
    for (int64_t i = 0; i < m; ++i) {
      double z = 0;
      for (int64_t id = 0; id < tokenizer->vocab_size(); ++id) z += std::exp(asked.value().At({i, id}));
      nats += std::log(z) - asked.value().At({i, answer[i]});
    }
    const Variable one = CrossEntropy(asked, Tensor::FromValues<int32_t>({m}, answer)).loss;
    sum = sum.defined() ? Add(sum, one) : one;
  }
  EXPECT_EQ(loss.sums[0].count, 5);
  EXPECT_NEAR(loss.sums[0].sum, nats, 1e-12 * nats);
  const std::vector<Tensor> expected = gradients(sum);
  // Sums of a few dozen products, of order 1 at most.
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::vector<double> here = actual[i].ToVector<double>(), there = expected[i].ToVector<double>();
    for (size_t k = 0; k < here.size(); ++k) ASSERT_NEAR(here[k], there[k], 1e-12) << i << " " << k;
  }
}

TEST(PromptCompletionTest, AModelAndATokenizerWithoutAnEndAreRefused) {
  SpecialTokens none = {kNoToken, kNoToken, kNoToken, kNoToken};
  testing::ExpectError([&] { ConfigureModel(Config("lm"), {.size = 300, .tokens = none}); }, ErrorKind::kUsage,
                       {"objective: prompt-completion teaches the end of an answer, and the model has no token"});
  TrainingConfig config = Config("lm");
  const ModelConfig model = ConfigureModel(config, VocabularyOf(config, Bytes().get()));
  ModelConfig endless = model;
  endless.tokens = none;
  testing::ExpectError(
      [&] { AnswerInText(config.objective, Lm(endless, 1), *Bytes(), FindTask("sst-2"), {Row("a", "A")}, {}, {}); },
      ErrorKind::kUsage, {"tokens.end: is missing"});
  EXPECT_TRUE(model.ends_texts);
  EXPECT_EQ(model.context, 11);
  config.model.positions = PositionScheme::kLearned;
  testing::ExpectError(
      [&] {
        ModelConfig origin = model;
        origin.context = 10;
        ConfigureModel(config, origin, config);
      },
      ErrorKind::kUsage, {"input_length: 8 tokens of a prompt and 3 of its answer are more than the 10"});
}

TEST(TextToTextTest, RowsThatCannotBeTrainedOnAreRefused) {
  std::vector<TaskRow> many;  // WSC's answers are words of the row's own, and each must fit
  for (int i = 0; i < 150; ++i) many.push_back(Row("a", std::to_string(100 + i)));
  EXPECT_NO_THROW(Make(many, "wsc"));
  many.back().targets = {"long"};
  testing::ExpectRefused({{"a label that does not fit",
                           [] {
                             Make({Row("a", "A"), Row("b", "BCDE")});
                           },
                           {"target_length: 4 tokens are less than the 5 that sst-2's answer \"BCDE\""}},
                          {"one of many answers", [&] { Make(many, "wsc"); }, {"wsc's answer \"long\""}},
                          {"no rows", [] { Make({}); }, {"has nothing to train on"}}});
}

class AnswersInTextTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, AnswersInTextTest, ::testing::Values("t5", "lm"));

TEST_P(AnswersInTextTest, AnAnswerDependsOnItsRowAlone) {
  const ResolvedConfig config(Config(GetParam()));
  const auto tokenizer = Bytes();
  const auto model = MakeModel(ConfigureModel(*config, VocabularyOf(*config, tokenizer.get())), 5);
  std::vector<TaskRow> rows;
  for (int i = 0; i < 70; ++i) rows.push_back(Row(std::string(1 + i % 7, static_cast<char>('a' + i % 26)), "A"));
  const auto answer = [&](const std::vector<TaskRow>& some) {
    return AnswerInText(config->objective, *model, *tokenizer, FindTask("sst-2"), some, DecoderOptions(), {});
  };
  const std::vector<TaskPrediction> all = answer(rows);
  ASSERT_EQ(all.size(), rows.size());
  for (const size_t i : {0, 13, 69}) {
    const std::vector<TaskPrediction> alone = answer({rows[i]});
    EXPECT_EQ(alone[0].id, all[i].id);
    EXPECT_EQ(alone[0].answer, all[i].answer);
  }
  EXPECT_THROW(AnswerInText(config->objective, *model, *tokenizer, FindTask("sst-2"), rows, DecoderOptions(),
                            {.stop = [] { return true; }, .progress = {}}),
               Interrupted);
}

TEST(TextToTextTest, RowsWithoutATargetAreNotTrainedOn) {
  std::vector<TaskRow> rows = {Row("a", "A"), Row("b", "B"), Row("c", "C")};
  rows[1].targets.clear();
  const auto examples = Make(rows);
  EXPECT_EQ(examples->num_places(), 2);
  for (int64_t place = 0; place < 6; ++place) {
    Batch batch = examples->EmptyBatch(1);
    examples->Write(place, place, batch, 0);
    EXPECT_NE(batch.Get("inputs").ToVector<int32_t>()[0], 'b' + 3);
  }
}

}  // namespace crosstalk::text_to_text_test
