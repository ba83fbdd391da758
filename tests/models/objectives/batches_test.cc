#include "crosstalk/models/objectives/batches.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/text/stories/synthetic_corpus.h"
#include "crosstalk/runtime/check.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace {

using Ids = std::vector<int32_t>;

BatchOptions SmallBatches() {
  BatchOptions options;
  options.batch_size = 3;
  options.micro_batches = 2;
  options.input_length = 64;
  options.seed = 5;
  return options;
}

std::shared_ptr<const Tokenizer> Bytes() { return MakeByteTokenizer(); }

std::shared_ptr<const TextSource> Text(const TempDir& dir, int words) {
  std::ofstream file(dir / "text.txt");
  for (int i = 0; i < words; ++i) file << "word" << i << (i % 9 == 8 ? '\n' : ' ');
  file.close();
  return OpenTextSource(dir / "text.txt");
}

Ids Row(const Tensor& tensor, int64_t row) { return tensor.Select(0, row).Contiguous().ToVector<int32_t>(); }

TEST(BatchesTest, ARowIsItsExampleCorrupted) {
  const BatchOptions options = SmallBatches();
  const TextCorpus corpus = MakeSyntheticCorpus(1);
  const auto tokenizer = Bytes();
  const auto batches = MakeTrainingBatches(corpus.training, tokenizer, options);
  const ChunkDataset dataset(corpus.training, tokenizer, 70, options.seed, TextSource::Order::kShuffled);
  std::set<Ids> rows;
  for (int64_t step = 0; step < 4; ++step) {
    for (int64_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
      const Seq2SeqBatch batch = batches->Get(step, micro_batch);
      EXPECT_EQ(batch.inputs.shape(), Shape({3, 64}));
      EXPECT_EQ(batch.targets.shape(), Shape({3, 14}));
      EXPECT_EQ(batch.inputs.dtype(), DType::kInt32);
      EXPECT_EQ(CountTargetTokens(batch), 3 * 14);
      for (int64_t row = 0; row < 3; ++row) {
        const int64_t index = (step * 2 + micro_batch) * 3 + row;
        const CorruptedExample example =
            CorruptSpans(dataset.Chunk(index), options.seed, index, options.corruption, *tokenizer);
        EXPECT_EQ(Row(batch.inputs, row), example.inputs);
        EXPECT_EQ(Row(batch.targets, row), example.targets);
        rows.insert(example.inputs);
      }
    }
  }
  EXPECT_EQ(rows.size(), 24u);
}

TEST(BatchesTest, MicroBatchesCutTheSameStep) {
  BatchOptions whole = SmallBatches(), halves = SmallBatches();
  whole.batch_size = 6;
  whole.micro_batches = 1;
  const TextCorpus corpus = MakeSyntheticCorpus(1);
  const Seq2SeqBatch all = MakeTrainingBatches(corpus.training, Bytes(), whole)->Get(2, 0);
  const auto parts = MakeTrainingBatches(corpus.training, Bytes(), halves);
  for (int64_t row = 0; row < 6; ++row) {
    EXPECT_EQ(Row(all.inputs, row), Row(parts->Get(2, row / 3).inputs, row % 3));
  }
}

TEST(BatchesTest, ChunksAreLocatedInTheirText) {
  const TempDir dir;
  const auto source = Text(dir, 3000);
  const ChunkDataset dataset(source, Bytes(), 141, 3, TextSource::Order::kShuffled);
  EXPECT_EQ(dataset.chunks_per_epoch(), *source->num_bytes() / 141);
  EXPECT_DOUBLE_EQ(dataset.bytes_per_token(), 1);
  for (int64_t i = 0; i < 300; i += 7) {
    const ChunkDataset::Located located = dataset.ChunkInText(i);
    const Ids ids = dataset.Chunk(i);
    ASSERT_EQ(ids.size(), 141u);
    for (size_t k = 0; k < ids.size(); ++k) {
      EXPECT_EQ(located.tokens[k].id, ids[k]);
      EXPECT_EQ(static_cast<unsigned char>(located.text[located.tokens[k].begin]) + 3, ids[k]);
    }
  }
}

// Tokens of very different density, so that the first guess of how much to read is too small.
TEST(BatchesTest, DenseTextGivesFullChunks) {
  const TempDir dir;
  {
    std::ofstream file(dir / "text.txt");
    for (int i = 0; i < 4000; ++i) file << "the old boats sing slowly and ";
    for (int i = 0; i < 40; ++i) file << "zxqj " << i * 7919 << " QQ\n";
    for (int i = 0; i < 4000; ++i) file << "the old boats sing slowly and ";
  }
  const auto source = OpenTextSource(dir / "text.txt");
  const std::shared_ptr<const Tokenizer> tokenizer = TrainTokenizer(*MakeSyntheticCorpus(1).training, {700, 50'000});
  const ChunkDataset dataset(source, tokenizer, 200, 0, TextSource::Order::kSequential);
  for (int64_t i = 0; i < std::min<int64_t>(400, dataset.chunks_per_epoch()); ++i) {
    EXPECT_EQ(dataset.Chunk(i).size(), 200u);
  }
}

TEST(BatchesTest, TextTooShortForOneExampleIsRefused) {
  const TempDir dir;
  const auto source = Text(dir, 12);  // 74 bytes or so
  BatchOptions options = SmallBatches();
  EXPECT_NO_THROW(MakeTrainingBatches(source, Bytes(), options)->Get(7, 1));
  options.input_length = 128;
  try {
    MakeTrainingBatches(source, Bytes(), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_NE(std::string(error.what()).find("text.txt"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("143"), std::string::npos) << error.what();  // 141 and two to spare
  }
}

TEST(BatchesTest, OptionsAreChecked) {
  const TextCorpus corpus = MakeSyntheticCorpus(1);
  BatchOptions options = SmallBatches();
  options.batch_size = 0;
  EXPECT_THROW(MakeTrainingBatches(corpus.training, Bytes(), options), Error);
  options = SmallBatches();
  options.input_length = 4096;  // 227 spans
  EXPECT_THROW(MakeTrainingBatches(corpus.training, Bytes(), options), Error);
  EXPECT_THROW(EvaluationBatches(corpus.validation, Bytes(), options, 8), Error);
  const auto batches = MakeTrainingBatches(corpus.training, Bytes(), SmallBatches());
  EXPECT_THROW(batches->Get(0, 2), Error);
  EXPECT_THROW(batches->Get(-1, 0), Error);
}

TEST(BatchesTest, PrefetchingGivesTheSameBitsInAnyOrder) {
  const TextCorpus corpus = MakeSyntheticCorpus(1);
  const auto plain = MakeTrainingBatches(corpus.training, Bytes(), SmallBatches());
  const auto ahead = MakePrefetchingBatches(MakeTrainingBatches(corpus.training, Bytes(), SmallBatches()), 2, 3);
  const auto expect_same = [&](int64_t step, int64_t micro_batch) {
    const Seq2SeqBatch a = plain->Get(step, micro_batch), b = ahead->Get(step, micro_batch);
    EXPECT_EQ(a.inputs.ToVector<int32_t>(), b.inputs.ToVector<int32_t>()) << step << ", " << micro_batch;
    EXPECT_EQ(a.targets.ToVector<int32_t>(), b.targets.ToVector<int32_t>()) << step << ", " << micro_batch;
  };
  for (int64_t step = 10; step < 20; ++step) {
    for (int64_t micro_batch = 0; micro_batch < 2; ++micro_batch) expect_same(step, micro_batch);
  }
  expect_same(3, 1);  // back
  expect_same(3, 1);  // again
  expect_same(40, 0);
  expect_same(40, 1);
  expect_same(41, 0);
  EXPECT_THROW(ahead->Get(0, 2), Error);
}

class FailingAt : public BatchSource {
 public:
  FailingAt(int64_t step, std::atomic<int>* calls) : step_(step), calls_(calls) {}
  Seq2SeqBatch Get(int64_t step, int64_t) override {
    ++*calls_;
    if (step == step_) Fail(ErrorKind::kData, "broken at ", step);
    return {Tensor::Full({1, 1}, static_cast<double>(step), DType::kInt32), Tensor::Zeros({1, 1}, DType::kInt32)};
  }

 private:
  int64_t step_;
  std::atomic<int>* calls_;
};

TEST(BatchesTest, AnErrorReachesTheCallItBelongsTo) {
  std::atomic<int> calls = 0;
  const auto ahead = MakePrefetchingBatches(std::make_unique<FailingAt>(5, &calls), 1, 4);
  for (int64_t step = 0; step < 10; ++step) {
    if (step == 5) {
      EXPECT_THROW(ahead->Get(step, 0), Error);
    } else {
      EXPECT_EQ(ahead->Get(step, 0).inputs.Item(), step);
    }
  }
}

TEST(BatchesTest, RunsAheadNoFurtherThanToldAndStops) {
  std::atomic<int> calls = 0;
  {
    const auto ahead = MakePrefetchingBatches(std::make_unique<FailingAt>(-1, &calls), 1, 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(calls, 0);  // where to begin is told by the first call
    ahead->Get(7, 0);
    for (int i = 0; i < 200 && calls < 4; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(calls, 4);  // the one taken and three ahead
  }
  { const auto never_used = MakePrefetchingBatches(std::make_unique<FailingAt>(-1, &calls), 1, 3); }
  EXPECT_EQ(calls, 4);
}

TEST(BatchesTest, EvaluationIsAFixedSetThatCoversASmallPartOnce) {
  const TempDir dir;
  const auto source = Text(dir, 300);  // about 2,000 bytes: 28 chunks of 70
  BatchOptions options = SmallBatches();
  const EvaluationBatches batches(source, Bytes(), options, 1000);
  EXPECT_EQ(batches.num_examples(), *source->num_bytes() / 70);
  EXPECT_EQ(batches.num_batches(), (batches.num_examples() + 2) / 3);
  EXPECT_FALSE(batches.Floor().has_value());
  options.seed = 99;
  const EvaluationBatches again(source, Bytes(), options, 1000);
  int64_t rows = 0, tokens = 0;
  std::set<Ids> distinct;
  for (int64_t i = 0; i < batches.num_batches(); ++i) {
    const Seq2SeqBatch batch = batches.Get(i);
    EXPECT_EQ(batch.inputs.ToVector<int32_t>(), again.Get(i).inputs.ToVector<int32_t>());
    for (int64_t row = 0; row < batch.inputs.size(0); ++row) distinct.insert(Row(batch.inputs, row));
    rows += batch.inputs.size(0);
    tokens += CountTargetTokens(batch);
  }
  EXPECT_EQ(rows, batches.num_examples());
  EXPECT_EQ(static_cast<int64_t>(distinct.size()), rows);
  EXPECT_EQ(tokens, rows * 14);
  EXPECT_THROW(batches.Get(batches.num_batches()), Error);
  EXPECT_EQ(EvaluationBatches(source, Bytes(), options, 7).num_batches(), 3);
}

TEST(BatchesTest, TheFloorOfTheBuiltInCorpusIsPositiveAndFallsWithContext) {
  const TextCorpus corpus = MakeSyntheticCorpus(1);
  const std::shared_ptr<const Tokenizer> tokenizer = TrainTokenizer(*corpus.training, {1000, 100'000});
  double last = 10;
  for (int64_t input_length : {64, 128, 256, 512}) {
    BatchOptions options = SmallBatches();
    options.input_length = input_length;
    const EvaluationBatches batches(corpus.validation, tokenizer, options, 200);
    int64_t tokens = 0;
    for (int64_t i = 0; i < batches.num_batches(); ++i) tokens += CountTargetTokens(batches.Get(i));
    const std::optional<EvaluationFloor> floor = batches.Floor();
    ASSERT_TRUE(floor.has_value());
    EXPECT_EQ(floor->target_tokens, tokens);
    const double nats = floor->nats / static_cast<double>(tokens);
    EXPECT_GT(nats, 0.05) << input_length;
    EXPECT_LT(nats, last) << input_length;
    last = nats;
  }
}

TEST(BatchesTest, NovelsThroughSentencePiece) {
  const char* data = std::getenv("CROSSTALK_DATA");
  if (data == nullptr) GTEST_SKIP() << "set CROSSTALK_DATA to the folder of real data";
  const TextCorpus corpus = OpenFileCorpus({std::string(data) + "/novels"});
  const std::shared_ptr<const Tokenizer> tokenizer = TrainTokenizer(*corpus.training, {1000, 60'000});
  const auto batches = MakeTrainingBatches(corpus.training, tokenizer, SmallBatches());
  EXPECT_EQ(CountTargetTokens(batches->Get(0, 0)), 3 * 14);
  EXPECT_EQ(EvaluationBatches(corpus.validation, tokenizer, SmallBatches(), 50).num_examples(), 50);
}

}  // namespace
}  // namespace crosstalk
