#include "crosstalk/models/training/objectives/span_corruption.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

void CheckOptions(const SpanCorruptionOptions& options) {
  CROSSTALK_CHECK(options.noise_density > 0 && options.noise_density < 1, "span corruption: noise density ",
                  options.noise_density, " is not between 0 and 1");
  CROSSTALK_CHECK(options.mean_span_length >= 1 && std::isfinite(options.mean_span_length),
                  "span corruption: mean span length ", options.mean_span_length, " is less than 1");
}

// Cuts `total` into `parts` non-empty parts; every such composition is equally likely. (Selection sampling of
// parts - 1 cuts among total - 1 places.)
std::vector<int64_t> RandomComposition(int64_t total, int64_t parts, RandomSequence& random) {
  std::vector<int64_t> lengths;
  lengths.reserve(parts);
  int64_t cuts = parts - 1;
  int64_t begin = 0;
  for (int64_t place = 1; place < total && cuts > 0; ++place) {
    if (static_cast<int64_t>(random.UniformInt(total - place)) < cuts) {
      lengths.push_back(place - begin);
      begin = place;
      --cuts;
    }
  }
  lengths.push_back(total - begin);
  return lengths;
}

}  // namespace

SpanCounts CountSpans(int64_t length, const SpanCorruptionOptions& options) {
  CheckOptions(options);
  CROSSTALK_CHECK(length >= 2, "span corruption: a chunk of ", length, " tokens is too short, it takes 2");
  const int64_t noise =
      std::clamp<int64_t>(RoundHalfToEven(static_cast<double>(length) * options.noise_density), 1, length - 1);
  const int64_t spans = RoundHalfToEven(static_cast<double>(noise) / options.mean_span_length);
  return {noise, std::clamp<int64_t>(spans, 1, std::min(noise, length - noise))};
}

SpanLengths LengthsForInputs(int64_t input_length, const SpanCorruptionOptions& options) {
  const auto lengths = [&](int64_t raw) {
    const SpanCounts counts = CountSpans(raw, options);
    return SpanLengths{raw, raw - counts.noise_tokens + counts.spans + 1, counts.noise_tokens + counts.spans + 1};
  };
  CROSSTALK_CHECK(lengths(2).inputs <= input_length, "span corruption: inputs of ", input_length,
                  " tokens are too short, the shortest are ", lengths(2).inputs);
  // One more raw token never makes the inputs shorter: search between a chunk that fits and one that does not.
  constexpr int64_t kLongest = int64_t{1} << 50;  // its product with a density is still right to the token
  int64_t fits = 2, too_long = 4;
  while (lengths(too_long).inputs <= input_length) {
    CROSSTALK_CHECK(too_long < kLongest, "span corruption: inputs of ", input_length, " tokens are too long");
    fits = too_long;
    too_long *= 2;
  }
  while (too_long - fits > 1) {
    const int64_t middle = fits + (too_long - fits) / 2;
    (lengths(middle).inputs <= input_length ? fits : too_long) = middle;
  }
  SpanLengths best = lengths(fits);
  if (options.noise_density == 0.5 && best.targets > best.inputs) {
    --best.raw;
    --best.targets;
  }
  return best;
}

std::vector<bool> SpanMask(int64_t length, uint64_t seed, int64_t example, const SpanCorruptionOptions& options) {
  CROSSTALK_CHECK(example >= 0, "span corruption: example ", example, " must not be negative");
  const SpanCounts counts = CountSpans(length, options);
  RandomSequence random(ExampleKey(seed, "models.text.span_corruption", example));
  const std::vector<int64_t> noise = RandomComposition(counts.noise_tokens, counts.spans, random);
  const std::vector<int64_t> gaps = RandomComposition(length - counts.noise_tokens, counts.spans, random);
  std::vector<bool> mask;
  mask.reserve(length);
  for (int64_t k = 0; k < counts.spans; ++k) {
    mask.insert(mask.end(), gaps[k], false);
    mask.insert(mask.end(), noise[k], true);
  }
  return mask;
}

CorruptedExample ApplySpanMask(std::span<const int32_t> tokens, const std::vector<bool>& mask,
                               const Tokenizer& tokenizer) {
  CROSSTALK_CHECK(tokens.size() == mask.size(), "span corruption: ", tokens.size(), " tokens but a mask of ",
                  mask.size());
  int spans = 0;
  for (size_t i = 0; i < mask.size(); ++i) spans += mask[i] && (i == 0 || !mask[i - 1]);
  CROSSTALK_CHECK(spans <= tokenizer.num_sentinels(), "span corruption: ", spans, " spans, but the tokenizer has ",
                  tokenizer.num_sentinels(), " sentinels: use shorter inputs, longer spans or more sentinels");
  CorruptedExample example;
  int span = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!mask[i]) {
      example.inputs.push_back(tokens[i]);
      continue;
    }
    if (i == 0 || !mask[i - 1]) {
      const int32_t sentinel = tokenizer.Sentinel(span++);
      example.inputs.push_back(sentinel);
      example.targets.push_back(sentinel);
    }
    example.targets.push_back(tokens[i]);
  }
  example.inputs.push_back(tokenizer.special_tokens().end);
  example.targets.push_back(tokenizer.special_tokens().end);
  return example;
}

CorruptedExample CorruptSpans(std::span<const int32_t> tokens, uint64_t seed, int64_t example,
                              const SpanCorruptionOptions& options, const Tokenizer& tokenizer) {
  return ApplySpanMask(tokens, SpanMask(static_cast<int64_t>(tokens.size()), seed, example, options), tokenizer);
}

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

ObjectiveType SpanCorruption() {
  return {.name = "span-corruption",
          .tokenizer = {.sentinels = kDefaultSentinels, .line_ends = LineEnds::kSpaces},
          .own = MembersOf(&ObjectiveConfig::noise_density, &ObjectiveConfig::mean_span_length),
          .describe =
              [](const ObjectiveConfig& config) {
                const SpanLengths lengths = LengthsOf(config);
                return StrCat(lengths.inputs, " + ", lengths.targets, " tokens");
              },
          .empty_batch =
              [](const ObjectiveConfig& config, const SpecialTokens& tokens, int64_t rows) {
                const SpanLengths lengths = LengthsOf(config);
                return EmptyTokenRows(rows, lengths.inputs, lengths.targets, tokens.pad);
              },
          .make = MakeExamples<SpanCorruptionExamples>};
}

}  // namespace crosstalk
