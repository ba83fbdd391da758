#include "crosstalk/models/training/objectives/batches.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/text/sentencepiece_training.h"
#include "crosstalk/models/text/synthetic/stories.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/objectives/span_corruption.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"
#include "tests/support/thread_limit.h"

namespace crosstalk::batches_test {

using Ids = std::vector<int32_t>;

constexpr uint64_t kSeed = 5;
constexpr int64_t kRows = 3, kParts = 2;

std::shared_ptr<const ExampleSource> Examples(std::shared_ptr<const TextSource> text,
                                              std::shared_ptr<const Tokenizer> tokenizer, int64_t input_length = 64,
                                              TextSource::Order order = TextSource::Order::kShuffled,
                                              uint64_t seed = kSeed) {
  TrainingConfig config;
  config.objective.input_length = input_length;
  return FindObjective("span-corruption").make(config.objective, {std::move(text), std::move(tokenizer), order, seed});
}

std::shared_ptr<const ExampleSource> HeldOut(std::shared_ptr<const TextSource> text,
                                             std::shared_ptr<const Tokenizer> tokenizer, int64_t input_length = 64) {
  return Examples(std::move(text), std::move(tokenizer), input_length, TextSource::Order::kSequential, 0);
}

std::shared_ptr<const Tokenizer> Bytes() { return MakeByteTokenizer(); }

std::shared_ptr<const TextSource> Text(const TempDir& dir, int words) {
  std::ofstream file(dir / "text.txt");
  for (int i = 0; i < words; ++i) file << "word" << i << (i % 9 == 8 ? '\n' : ' ');
  file.close();
  return OpenTextSource(dir / "text.txt");
}

Ids Row(const Tensor& tensor, int64_t row) { return tensor.Select(0, row).Contiguous().ToVector<int32_t>(); }

// Whatever parts a step is cut into.
TEST(BatchesTest, ARowIsItsExampleCorrupted) {
  const TextCorpus corpus = MakeSyntheticCorpus(1);
  const auto tokenizer = Bytes();
  const ChunkDataset dataset(corpus.training, tokenizer, 70, kSeed, TextSource::Order::kShuffled);
  for (const int64_t parts : {1, 2, 3}) {
    const auto batches = MakeTrainingBatches(Examples(corpus.training, tokenizer), 6, parts);
    const int64_t size = 6 / parts;
    std::set<Ids> rows;
    for (int64_t index = 0; index < 24; ++index) {
      const Batch batch = batches->Get(index / 6, index % 6 / size);
      EXPECT_EQ(batch.Get("inputs").shape(), Shape({size, 64}));
      EXPECT_EQ(batch.Get("targets").shape(), Shape({size, 14}));
      EXPECT_EQ(batch.Get("inputs").dtype(), DType::kInt32);
      EXPECT_EQ(batch.targets, size * 14);
      EXPECT_EQ(batch.positions, size * 14);
      EXPECT_EQ(batch.tokens, size * (64 + 14));
      const CorruptedExample example = CorruptSpans(dataset.Chunk(index), kSeed, index, {}, *tokenizer);
      EXPECT_EQ(Row(batch.Get("inputs"), index % size), example.inputs);
      EXPECT_EQ(Row(batch.Get("targets"), index % size), example.targets);
      rows.insert(example.inputs);
    }
    EXPECT_EQ(rows.size(), 24u);
  }
}

TEST(BatchesTest, ChunksAreLocatedInTheirText) {
  const TempDir dir;
  const auto source = Text(dir, 3000);
  const ChunkDataset dataset(source, Bytes(), 141, 3, TextSource::Order::kShuffled);
  EXPECT_EQ(dataset.chunks_per_epoch(), *source->num_bytes() / 141);
  EXPECT_DOUBLE_EQ(dataset.bytes_per_token(), 1);
  for (int64_t i = 0; i < 300; i += 7) {
    const ChunkLocation located = dataset.LocateChunk(i);
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

TEST(BatchesTest, WhatCannotBeIsRefused) {
  const TempDir dir;
  const auto source = Text(dir, 12);  // 74 bytes or so
  const auto examples = Examples(source, Bytes()), built_in = Examples(MakeSyntheticCorpus(1).training, Bytes());
  const auto batches = MakeTrainingBatches(examples, kRows * kParts, kParts);
  EXPECT_NO_THROW(batches->Get(7, 1));
  testing::ExpectError([&] { Examples(source, Bytes(), 128); }, ErrorKind::kData,
                       {"text.txt", "143"});  // 141 and two to spare
  testing::ExpectRefused({{"fewer rows than parts", [&] { MakeTrainingBatches(built_in, 1, 2); }, {}},
                          {"no parts", [&] { MakeTrainingBatches(built_in, 1, 0); }, {}},
                          {"227 spans", [&] { Examples(MakeSyntheticCorpus(1).training, Bytes(), 4096); }, {}},
                          {"no examples", [&] { EvaluationBatches(built_in, 8, 0); }, {}},
                          {"a part", [&] { batches->Get(0, 2); }, {}},
                          {"a step", [&] { batches->Get(-1, 0); }, {}}});
}

// A source that takes as long as the thread needs to be caught in the middle of making a batch.
class Unhurried : public BatchSource {
 public:
  Batch Get(int64_t, int64_t) override {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    return {};
  }
};

TEST(BatchesTest, AStepThatIsQuickerThanItsBatchesGetsEachOfThem) {
  const auto ahead = MakePrefetchingBatches(std::make_unique<Unhurried>(), {0, 1}, 4);
  for (int64_t i = 0; i < 1000; ++i) {
    if (i % 3 != 0) std::this_thread::sleep_for(std::chrono::microseconds(i % 60));
    ahead->Get(i / 2, i % 2);
  }
}

TEST(BatchesTest, PrefetchingGivesTheSameBitsInAnyOrder) {
  const TextCorpus corpus = MakeSyntheticCorpus(1);
  const auto plain = MakeTrainingBatches(Examples(corpus.training, Bytes()), kRows * kParts, kParts);
  const auto ahead = MakePrefetchingBatches(
      MakeTrainingBatches(Examples(corpus.training, Bytes()), kRows * kParts, kParts), {0, 1}, 3);
  const auto expect_same = [&](int64_t step, int64_t part) {
    const Batch a = plain->Get(step, part), b = ahead->Get(step, part);
    EXPECT_EQ(a.Get("inputs").ToVector<int32_t>(), b.Get("inputs").ToVector<int32_t>()) << step << ", " << part;
    EXPECT_EQ(a.Get("targets").ToVector<int32_t>(), b.Get("targets").ToVector<int32_t>()) << step << ", " << part;
  };
  for (int64_t step = 10; step < 20; ++step) {
    for (int64_t part = 0; part < 2; ++part) expect_same(step, part);
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
  Batch Get(int64_t step, int64_t) override {
    ++*calls_;
    if (step == step_) Fail(ErrorKind::kData, "broken at ", step);
    Batch batch;
    batch.Add("inputs", Tensor::Full({1, 1}, static_cast<double>(step), DType::kInt32));
    return batch;
  }

 private:
  int64_t step_;
  std::atomic<int>* calls_;
};

TEST(BatchesTest, PrefetchingMakesNoOtherPartsThanTold) {
  std::atomic<int> calls = 0;
  const auto some = MakePrefetchingBatches(std::make_unique<FailingAt>(-1, &calls), {1, 4}, 1);
  for (int64_t step = 0; step < 5; ++step) {
    for (const int64_t part : {1, 4}) EXPECT_EQ(some->Get(step, part).Get("inputs").Item(), step);
  }
  EXPECT_LE(calls, 11);  // of them one ahead
  EXPECT_THROW(some->Get(5, 0), Error);
  EXPECT_THROW(some->Get(5, 2), Error);
}

TEST(BatchesTest, AnErrorReachesTheCallItBelongsTo) {
  std::atomic<int> calls = 0;
  const auto ahead = MakePrefetchingBatches(std::make_unique<FailingAt>(5, &calls), {0}, 4);
  for (int64_t step = 0; step < 5; ++step) EXPECT_EQ(ahead->Get(step, 0).Get("inputs").Item(), step);
  EXPECT_THROW(ahead->Get(5, 0), Error);
  for (int64_t step = 6; step < 10; ++step) EXPECT_EQ(ahead->Get(step, 0).Get("inputs").Item(), step);
}

TEST(BatchesTest, RunsAheadNoFurtherThanToldAndStops) {
  std::atomic<int> calls = 0;
  {
    const auto ahead = MakePrefetchingBatches(std::make_unique<FailingAt>(-1, &calls), {0}, 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(calls, 0);  // where to begin is told by the first call
    ahead->Get(7, 0);
    for (int i = 0; i < 200 && calls < 4; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(calls, 4);  // the one taken and three ahead
  }
  { const auto never_used = MakePrefetchingBatches(std::make_unique<FailingAt>(-1, &calls), {0}, 3); }
  EXPECT_EQ(calls, 4);
}

TEST(BatchesTest, WithoutAThreadToGiveBatchesAreMadeWhenAskedFor) {
  std::atomic<int> calls = 0;
  const testing::ThreadLimitScope none(0);
  const auto batches = MakePrefetchingBatches(std::make_unique<FailingAt>(-1, &calls), {0}, 3);
  for (int64_t step = 0; step < 5; ++step) EXPECT_EQ(batches->Get(step, 0).Get("inputs").Item(), step);
  EXPECT_EQ(calls, 5);
}

TEST(BatchesTest, EvaluationIsAFixedSetThatCoversASmallPartOnce) {
  const TempDir dir;
  const auto source = Text(dir, 300);  // about 2,000 bytes: 28 chunks of 70
  const EvaluationBatches batches(HeldOut(source, Bytes()), kRows, 1000);
  EXPECT_EQ(batches.num_examples(), *source->num_bytes() / 70);
  EXPECT_EQ(batches.num_batches(), (batches.num_examples() + 2) / 3);
  EXPECT_FALSE(batches.EntropyBound().has_value());
  const EvaluationBatches again(HeldOut(source, Bytes()), kRows, 1000);
  int64_t rows = 0, tokens = 0;
  std::set<Ids> distinct;
  for (int64_t i = 0; i < batches.num_batches(); ++i) {
    const Batch batch = batches.Get(i);
    EXPECT_EQ(batch.Get("inputs").ToVector<int32_t>(), again.Get(i).Get("inputs").ToVector<int32_t>());
    for (int64_t row = 0; row < batch.Get("inputs").size(0); ++row) distinct.insert(Row(batch.Get("inputs"), row));
    rows += batch.Get("inputs").size(0);
    tokens += batch.targets;
  }
  EXPECT_EQ(rows, batches.num_examples());
  EXPECT_EQ(static_cast<int64_t>(distinct.size()), rows);
  EXPECT_EQ(tokens, rows * 14);
  EXPECT_THROW(batches.Get(batches.num_batches()), Error);
  EXPECT_EQ(EvaluationBatches(HeldOut(source, Bytes()), kRows, 7).num_batches(), 3);
}

TEST(BatchesTest, TheEntropyBoundOfTheBuiltInCorpusIsPositiveAndFallsWithContext) {
  const TextCorpus corpus = MakeSyntheticCorpus(1);
  const std::shared_ptr<const Tokenizer> tokenizer = TrainTokenizer(*corpus.training, {1000, 100'000});
  double last = 10;
  for (int64_t input_length : {64, 128, 256, 512}) {
    const EvaluationBatches batches(HeldOut(corpus.validation, tokenizer, input_length), kRows, 200);
    const double nats = batches.EntropyBound().value();
    EXPECT_GT(nats, 0.05) << input_length;
    EXPECT_LT(nats, last) << input_length;
    last = nats;
  }
}

// Counts the examples whose bound is asked for.
class Endless : public ExampleSource {
 public:
  Batch EmptyBatch(int64_t) const override { return {}; }
  void Write(int64_t, int64_t, Batch&, int64_t) const override {}
  int64_t num_places() const override { return INT64_MAX; }
  std::optional<LossBound> EntropyBound(int64_t, int64_t) const override {
    ++asked;
    return LossBound{.nats = 1, .targets = 2};
  }
  mutable int64_t asked = 0;
};

// As long as integers go.
TEST(BatchesTest, TheBoundOfALongEvaluationCanBeStopped) {
  const auto examples = std::make_shared<Endless>();
  EXPECT_EQ(EvaluationBatches(examples, 4, INT64_MAX).num_batches(), INT64_MAX / 4 + 1);
  const EvaluationBatches batches(examples, 4, int64_t{1} << 62);
  EXPECT_THROW(batches.EntropyBound([&] { return examples->asked >= 40; }), Interrupted);
  EXPECT_EQ(examples->asked, 40);
  EXPECT_EQ(EvaluationBatches(examples, 4, 10).EntropyBound([] { return false; }), 0.5);
}

}  // namespace crosstalk::batches_test
