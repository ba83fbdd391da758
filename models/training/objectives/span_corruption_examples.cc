#include "crosstalk/models/training/objectives/span_corruption_examples.h"

#include <utility>

#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/training/objectives/config.h"
#include "crosstalk/models/training/objectives/span_corruption.h"
#include "crosstalk/models/training/objectives/token_rows.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

SpanCorruptionOptions SpanOptionsOf(const ObjectiveConfig& config) {
  return {.noise_density = config.noise_density, .mean_span_length = config.mean_span_length};
}

SpanLengths LengthsOf(const ObjectiveConfig& config) {
  return LengthsForInputs(config.input_length, SpanOptionsOf(config));
}

SpanLengths CheckedLengths(const ObjectiveConfig& config, const Tokenizer& tokenizer) {
  const SpanLengths lengths = LengthsOf(config);
  const SpanCounts counts = CountSpans(lengths.raw, SpanOptionsOf(config));
  CROSSTALK_CHECK(counts.spans <= tokenizer.num_sentinels(), "span corruption: inputs of ", config.input_length,
                  " tokens have ", counts.spans, " hidden spans, but the tokenizer has ", tokenizer.num_sentinels(),
                  " sentinels: use a smaller input_length");
  return lengths;
}

class SpanCorruptionExamples : public ExampleSource {
 public:
  SpanCorruptionExamples(const ObjectiveConfig& config, ExampleInputs inputs)
      : inputs_(std::move(inputs)),
        options_(SpanOptionsOf(config)),
        lengths_(CheckedLengths(config, *inputs_.tokenizer)),
        dataset_(inputs_.text, inputs_.tokenizer, lengths_.raw, inputs_.seed, inputs_.order) {}

  Batch EmptyBatch(int64_t rows) const override {
    return EmptyTokenRows(rows, lengths_.inputs, lengths_.targets, inputs_.tokenizer->special_tokens().pad);
  }

  void Write(int64_t place, int64_t index, Batch& batch, int64_t row) const override {
    const CorruptedExample example =
        CorruptSpans(dataset_.Chunk(place), inputs_.seed, index, options_, *inputs_.tokenizer);
    WriteTokenRow(example.inputs, example.targets, row, batch);
    batch.tokens += std::ssize(example.inputs) + std::ssize(example.targets);
  }

  int64_t num_places() const override { return dataset_.chunks_per_epoch(); }

  std::optional<LossBound> EntropyBound(int64_t place, int64_t index) const override {
    const std::vector<bool> hidden = SpanMask(lengths_.raw, inputs_.seed, index, options_);
    const std::optional<double> nats = dataset_.EntropyBound(place, hidden);
    if (!nats) return std::nullopt;
    const SpanCounts counts = CountSpans(lengths_.raw, options_);
    return LossBound{*nats, counts.noise_tokens + counts.spans + 1};
  }

 private:
  ExampleInputs inputs_;
  SpanCorruptionOptions options_;
  SpanLengths lengths_;
  ChunkDataset dataset_;
};

}  // namespace

std::string DescribeSpanCorruption(const ObjectiveConfig& config) {
  const SpanLengths lengths = LengthsOf(config);
  return StrCat(lengths.inputs, " + ", lengths.targets, " tokens");
}

Batch EmptySpanCorruptionBatch(const ObjectiveConfig& config, const SpecialTokens& tokens, int64_t rows) {
  const SpanLengths lengths = LengthsOf(config);
  return EmptyTokenRows(rows, lengths.inputs, lengths.targets, tokens.pad);
}

std::unique_ptr<ExampleSource> MakeSpanCorruptionExamples(const ObjectiveConfig& config, ExampleInputs inputs) {
  return std::make_unique<SpanCorruptionExamples>(config, std::move(inputs));
}

}  // namespace crosstalk
