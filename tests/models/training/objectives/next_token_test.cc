

#include "crosstalk/models/text/synthetic/puzzles.h"
#include "crosstalk/models/text/synthetic/stories.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/objectives/batches.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::next_token_test {

using Ids = std::vector<int32_t>;

constexpr int64_t kLength = 12;

std::shared_ptr<const ExampleSource> Examples(std::shared_ptr<const TextSource> text, TextSource::Order order,
                                              int64_t length = kLength) {
  TrainingConfig config;
  config.model.name = "lm";
  config.objective.input_length = length;
  const ObjectiveType& objective = FindObjective("next-token");
  EXPECT_EQ(objective.tokenizer.sentinels, 0);
  return objective.make(config.objective, {std::move(text), MakeByteTokenizer(0), order, 5});
}

Ids Row(const Tensor& tensor, int64_t row) { return tensor.Select(0, row).Contiguous().ToVector<int32_t>(); }

TEST(NextTokenTest, EachTargetIsTheTokenBehindItsInput) {
  const auto examples = Examples(MakeSyntheticCorpus(1).training, TextSource::Order::kShuffled);
  Batch batch = examples->EmptyBatch(3);
  for (int64_t row = 0; row < 3; ++row) examples->Write(7 + row, row, batch, row);
  for (int64_t row = 0; row < 3; ++row) {
    const Ids inputs = Row(batch.Get("inputs"), row), targets = Row(batch.Get("targets"), row);
    ASSERT_EQ(inputs.size(), 12u);
    EXPECT_EQ(Ids(inputs.begin() + 1, inputs.end()), Ids(targets.begin(), targets.end() - 1));
    EXPECT_GT(targets.back(), 2);
  }
  EXPECT_NE(Row(batch.Get("inputs"), 0), Row(batch.Get("inputs"), 1));
  EXPECT_EQ(batch.targets, 3 * kLength);
  EXPECT_EQ(batch.positions, 3 * kLength);
  EXPECT_EQ(batch.tokens, 3 * kLength);
}

TEST(NextTokenTest, HeldOutExamplesGoThroughTheText) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "word" + std::to_string(100 + i) + " ";
  std::ofstream(dir / "text.txt") << text;
  const EvaluationBatches batches(Examples(OpenTextSource(dir / "text.txt"), TextSource::Order::kSequential), 4, 1000);
  EXPECT_EQ(batches.num_examples(), static_cast<int64_t>((text.size() + 2) / (kLength + 1)));
  const std::string first = MakeByteTokenizer(0)->Decode(Row(batches.Get(0).Get("inputs"), 0));
  EXPECT_EQ(first, text.substr(0, kLength));
  testing::ExpectError(
      [&] { Examples(OpenTextSource(dir.Put("short.txt", "too short")), TextSource::Order::kSequential); },
      ErrorKind::kData, {"too short"});
}

TEST(NextTokenTest, TheBuiltInCorpusKnowsItsBound) {
  const EvaluationBatches batches(Examples(MakeSyntheticCorpus(1).validation, TextSource::Order::kSequential, 600), 2,
                                  6);
  const double bound = batches.EntropyBound().value();
  EXPECT_GT(bound, 0);
  EXPECT_LT(bound, 3);  // nats a byte
}

// Only the answers of puzzles are targets.
TEST(NextTokenTest, TargetsAreWhatTheTextAsksFor) {
  const auto examples =
      Examples(MakePuzzleCorpus(CorpusKind::kRetrieval, 0).training, TextSource::Order::kShuffled, 64);
  Batch batch = examples->EmptyBatch(2);
  for (int64_t row = 0; row < 2; ++row) examples->Write(row, row, batch, row);
  for (int64_t row = 0; row < 2; ++row) {
    const Ids inputs = Row(batch.Get("inputs"), row), targets = Row(batch.Get("targets"), row);
    for (size_t i = 0; i < targets.size(); ++i) {
      const bool answer = i >= 31 && i < 61 && i % 2 == 1;  // the value of the key that the input is
      EXPECT_EQ(targets[i] != kNoToken, answer) << i;
      if (answer) {
        EXPECT_EQ(targets[i], inputs[i + 1]);
      }
    }
  }
  EXPECT_EQ(batch.targets, 2 * 15);
  EXPECT_EQ(batch.tokens, 2 * 64);
  EXPECT_EQ(examples->EntropyBound(0, 0)->nats, 0);
  EXPECT_EQ(examples->EntropyBound(0, 0)->targets, 15);
  const auto short_ones = Examples(MakePuzzleCorpus(CorpusKind::kRetrieval, 0).training, TextSource::Order::kShuffled);
  testing::ExpectError([&] { short_ones->Write(0, 0, batch, 0); }, ErrorKind::kUsage,
                       {"input_length", "asks for nothing in the first 12 tokens"});
}

}  // namespace crosstalk::next_token_test
