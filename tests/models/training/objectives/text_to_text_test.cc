#include "crosstalk/models/training/objectives/text_to_text.h"

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

TrainingConfig Config() {
  TrainingConfig config = *TinyConfig();
  config.objective.name = "text-to-text";
  config.objective.noise_density = TrainingConfig().objective.noise_density;
  config.objective.tasks = "sst-2";
  config.objective.task_data = "unused";
  config.objective.input_length = 8;
  config.objective.target_length = 4;
  return config;
}

// Byte b is b + 3, </s> 1, pad 0.
std::shared_ptr<const Tokenizer> Bytes() { return MakeByteTokenizer(); }

std::shared_ptr<const ExampleSource> Make(const std::vector<TaskRow>& rows, const char* task = "sst-2") {
  return FindObjective("text-to-text")
      .make(Config().objective, {.text = nullptr, .tokenizer = Bytes(), .seed = 1, .tasks = Tasks(rows, task)});
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

TEST(TextToTextTest, LongTextsLoseTheirEnds) {
  const auto examples = Make({Row("0123456789", "ABCDE")}, "squad");
  Batch batch = examples->EmptyBatch(1);
  examples->Write(0, 0, batch, 0);
  EXPECT_EQ(batch.Get("inputs").ToVector<int32_t>(),
            Ids({'0' + 3, '1' + 3, '2' + 3, '3' + 3, '4' + 3, '5' + 3, '6' + 3, 1}));
  EXPECT_EQ(batch.Get("targets").ToVector<int32_t>(), Ids({'A' + 3, 'B' + 3, 'C' + 3, 1}));
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

TEST(TextToTextTest, AnAnswerDependsOnItsRowAlone) {
  const ResolvedConfig config(Config());
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
