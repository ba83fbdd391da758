#include "crosstalk/models/objectives/batches.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/text/stories/synthetic_corpus.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

constexpr uint64_t kEvaluationSeed = 0;  // the set does not depend on the run

// The lengths of all examples, and everything about the options that can be wrong.
SpanLengths CheckedLengths(const BatchOptions& options, const Tokenizer& tokenizer) {
  CROSSTALK_CHECK(options.batch_size >= 1 && options.micro_batches >= 1, "batches: a batch size of ",
                  options.batch_size, " in ", options.micro_batches, " micro-batches; both must be at least 1");
  const SpanLengths lengths = LengthsForInputs(options.input_length, options.corruption);
  const SpanCounts counts = CountSpans(lengths.raw, options.corruption);
  CROSSTALK_CHECK(counts.spans <= tokenizer.num_sentinels(), "batches: inputs of ", options.input_length,
                  " tokens have ", counts.spans, " hidden spans, but the tokenizer has ", tokenizer.num_sentinels(),
                  " sentinels: use shorter inputs, longer spans or more sentinels");
  return lengths;
}

// Rows of padding, to be overwritten from the left.
Seq2SeqBatch EmptyBatch(int64_t rows, const SpanLengths& lengths) {
  return {Tensor::Zeros({rows, lengths.inputs}, DType::kInt32), Tensor::Zeros({rows, lengths.targets}, DType::kInt32)};
}

void SetRow(const Seq2SeqBatch& batch, int64_t row, const CorruptedExample& example) {
  const auto copy = [&](const std::vector<int32_t>& ids, const Tensor& to) {
    CROSSTALK_DCHECK(static_cast<int64_t>(ids.size()) <= to.size(1));
    std::copy(ids.begin(), ids.end(), to.data<int32_t>() + row * to.size(1));
  };
  copy(example.inputs, batch.inputs);
  copy(example.targets, batch.targets);
}

class TrainingBatches : public BatchSource {
 public:
  TrainingBatches(std::shared_ptr<const TextSource> source, std::shared_ptr<const Tokenizer> tokenizer,
                  const BatchOptions& options)
      : options_(options),
        lengths_(CheckedLengths(options, *tokenizer)),
        tokenizer_(tokenizer),
        dataset_(std::move(source), std::move(tokenizer), lengths_.raw, options.seed, TextSource::Order::kShuffled) {}

  Seq2SeqBatch Get(int64_t step, int64_t micro_batch) override {
    CROSSTALK_CHECK(step >= 0 && micro_batch >= 0 && micro_batch < options_.micro_batches, "batches: step ", step,
                    ", micro-batch ", micro_batch, " of ", options_.micro_batches);
    const Seq2SeqBatch batch = EmptyBatch(options_.batch_size, lengths_);
    for (int64_t row = 0; row < options_.batch_size; ++row) {
      const int64_t example = (step * options_.micro_batches + micro_batch) * options_.batch_size + row;
      SetRow(batch, row,
             CorruptSpans(dataset_.Chunk(example), options_.seed, example, options_.corruption, *tokenizer_));
    }
    return batch;
  }

 private:
  BatchOptions options_;
  SpanLengths lengths_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  ChunkDataset dataset_;
};

}  // namespace

int64_t CountTargetTokens(const Seq2SeqBatch& batch) {
  const int32_t* ids = batch.targets.data<int32_t>();
  return batch.targets.num_elements() - std::count(ids, ids + batch.targets.num_elements(), kPadId);
}

std::unique_ptr<BatchSource> MakeTrainingBatches(std::shared_ptr<const TextSource> source,
                                                 std::shared_ptr<const Tokenizer> tokenizer,
                                                 const BatchOptions& options) {
  return std::make_unique<TrainingBatches>(std::move(source), std::move(tokenizer), options);
}

struct EvaluationBatches::Impl {
  std::shared_ptr<const TextSource> source;
  std::shared_ptr<const Tokenizer> tokenizer;
  BatchOptions options;
  SpanLengths lengths;
  ChunkDataset dataset;
  int64_t num_examples;

  // The chunk that example number i of the set is.
  int64_t ChunkIndex(int64_t i) const {
    if (!source->num_bytes()) return i;
    return static_cast<int64_t>(static_cast<__int128>(i) * dataset.chunks_per_epoch() / num_examples);
  }
};

EvaluationBatches::EvaluationBatches(std::shared_ptr<const TextSource> source,
                                     std::shared_ptr<const Tokenizer> tokenizer, const BatchOptions& options,
                                     int64_t max_examples) {
  CROSSTALK_CHECK(max_examples >= 1, "evaluation: ", max_examples, " examples; must be at least 1");
  const SpanLengths lengths = CheckedLengths(options, *tokenizer);
  ChunkDataset dataset(source, tokenizer, lengths.raw, kEvaluationSeed, TextSource::Order::kSequential);
  const int64_t num_examples = std::min(max_examples, dataset.chunks_per_epoch());
  impl_ = std::make_unique<Impl>(
      Impl{std::move(source), std::move(tokenizer), options, lengths, std::move(dataset), num_examples});
}

EvaluationBatches::~EvaluationBatches() = default;

int64_t EvaluationBatches::num_examples() const { return impl_->num_examples; }

int64_t EvaluationBatches::num_batches() const {
  return (impl_->num_examples + impl_->options.batch_size - 1) / impl_->options.batch_size;
}

Seq2SeqBatch EvaluationBatches::Get(int64_t index) const {
  CROSSTALK_CHECK(index >= 0 && index < num_batches(), "evaluation: batch ", index, " of ", num_batches());
  const int64_t begin = index * impl_->options.batch_size;
  const int64_t end = std::min(impl_->num_examples, begin + impl_->options.batch_size);
  const Seq2SeqBatch batch = EmptyBatch(end - begin, impl_->lengths);
  for (int64_t i = begin; i < end; ++i) {
    SetRow(batch, i - begin,
           CorruptSpans(impl_->dataset.Chunk(impl_->ChunkIndex(i)), kEvaluationSeed, i, impl_->options.corruption,
                        *impl_->tokenizer));
  }
  return batch;
}

std::optional<EvaluationFloor> EvaluationBatches::Floor() const {
  const auto* stories = dynamic_cast<const SyntheticSource*>(impl_->source.get());
  if (stories == nullptr) return std::nullopt;
  const StoryFloor story_floor(*impl_->tokenizer);
  EvaluationFloor floor;
  for (int64_t i = 0; i < impl_->num_examples; ++i) {
    const int64_t example = impl_->ChunkIndex(i);
    const ChunkDataset::Located chunk = impl_->dataset.ChunkInText(example);
    const Story story = stories->StoryAt(example, static_cast<int64_t>(chunk.text.size()));
    floor.nats += story_floor.Nats(story, chunk.tokens,
                                   SpanMask(impl_->lengths.raw, kEvaluationSeed, i, impl_->options.corruption));
    floor.target_tokens += impl_->lengths.targets;
  }
  return floor;
}

}  // namespace crosstalk
