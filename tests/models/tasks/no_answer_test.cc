// The threshold of SQuAD 2.0, from a model's answers to their score.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "crosstalk/models/bert/bert.h"
#include "crosstalk/models/tasks/squad.h"
#include "crosstalk/models/training/objectives/task_head.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk {
namespace no_answer_test {

double MeasureOf(const std::vector<Metric>& measures, const std::string& name) {
  for (const Metric& measure : measures) {
    if (measure.name == name) return measure.value;
  }
  ADD_FAILURE() << name;
  return 0;
}

TEST(NoAnswerTest, TheBestThresholdsAnswersScoreWhatItPromises) {
  const std::unique_ptr<Tokenizer> bytes = MakeByteTokenizer(0, MaskTokens::kYes);
  BertConfig config;
  config.vocabulary = bytes->vocab_size();
  config.tokens = bytes->special_tokens();
  config.d_model = 24;
  config.d_ff = 48;
  config.layers = 1;
  config.attention = MakeAttentionConfig({.kind = AttentionKind::kMultihead, .heads = 3, .key_size = {}}, 24);
  config.max_positions = 48;
  config.heads = {.span = true};
  config.stddev = 0.3;
  TaskType type = {};
  type.name = "squad-v2";
  type.form = TaskForm::kSpan;
  type.score = ScoreSquadV2;
  for (const uint64_t seed : {1, 2, 3, 4}) {
    RandomSequence random(RandomKey{seed, StreamId("no_answer_test"), 0});
    std::vector<TaskRow> rows;
    for (int i = 0; i < 30; ++i) {
      TaskRow& row = rows.emplace_back();
      row.id = std::to_string(i);
      row.first = std::string(1 + random.UniformInt(5), static_cast<char>('a' + random.UniformInt(26)));
      row.second.emplace();
      for (int k = 0; k < 8; ++k) {
        if (k > 0) *row.second += ' ';
        for (int c = 0; c < 3; ++c) *row.second += static_cast<char>('a' + random.UniformInt(26));
      }
      row.labelled = true;
    }
    const Bert model(config, seed);
    const EncoderTaskOptions options = {.input_length = 40, .window_stride = 8};
    std::vector<TaskPrediction> predictions = AnswerWithHead(model, *bytes, type, rows, options);
    // Half of the questions have the answer that the model gives, a third of them with a word more.
    for (size_t i = 0; i < rows.size(); i += 2) {
      rows[i].answers = {{predictions[i].answer + (i % 3 == 0 ? " more" : ""), std::nullopt}};
    }
    const std::vector<Metric> before = ScoreSquadV2(type, rows, predictions);
    EmptyAnswersAbove(BestNoAnswerThreshold(type, rows, predictions), &predictions);
    const std::vector<Metric> after = ScoreSquadV2(type, rows, predictions);
    EXPECT_NEAR(MeasureOf(after, "f1"), MeasureOf(before, "best_f1"), 1e-9);
    EXPECT_GE(MeasureOf(after, "f1"), MeasureOf(before, "f1") - 1e-9);
  }
}

}  // namespace no_answer_test
}  // namespace crosstalk
