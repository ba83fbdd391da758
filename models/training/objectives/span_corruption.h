// Span corruption, T5's pretraining objective: random spans of a chunk of raw tokens are replaced by sentinels, and the
// targets spell out what was hidden. Source: text-to-text-transfer-transformer's preprocessors, restated in our words.
// As an objective a chunk becomes the row `inputs` int32[b, n], in which sentinels replace hidden spans, and the row
// `targets` int32[b, m], which spells them out. n and m follow from input_length.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "crosstalk/models/text/tokenizer.h"

namespace crosstalk {

struct SpanCorruptionOptions {
  double noise_density = 0.15;    // share of the raw tokens hidden, in (0, 1)
  double mean_span_length = 3.0;  // in tokens, ≥ 1
};

// How a chunk of raw tokens is cut: the counts depend on its length alone.
struct SpanCounts {
  int64_t noise_tokens;  // round half to even of length·density, in [1, length - 1]
  int64_t spans;         // max(1, round(noise_tokens / mean_span_length)), at most the shorter of the two sides
};
// length ≥ 2, else Error(kUsage).
SpanCounts CountSpans(int64_t length, const SpanCorruptionOptions& options);

// The lengths that go together: inputs = raw - noise + spans + 1, targets = noise + spans + 1, where 1 is the end
// token.
struct SpanLengths {
  int64_t raw;
  int64_t inputs;
  int64_t targets;
};
// The longest raw chunk whose inputs fit in input_length: 512 ← 568 → 114, 128 ← 141 → 29, 64 ← 70 → 14.
// At a density of 0.5 exactly, T5 keeps targets from being longer than inputs: where they would be, it takes one off
// both raw and targets, 16 ← 22 → 16. One raw token less may also mean one span less (11 ← 14 → 11): both sides of the
// example then end one token short of these lengths.
// Error(kUsage) if input_length is too small for any, or too large to count with.
SpanLengths LengthsForInputs(int64_t input_length, const SpanCorruptionOptions& options);

struct CorruptedExample {
  std::vector<int32_t> inputs;   // ends with the end token
  std::vector<int32_t> targets;  // ends with the end token
};
// The mask of hidden tokens: spans and gaps alternate, starting with a gap, each a random composition into non-empty
// parts. A pure function of (seed, example, length, options).
std::vector<bool> SpanMask(int64_t length, uint64_t seed, int64_t example, const SpanCorruptionOptions& options);
// Applies a mask: the k-th hidden span becomes Sentinel(k) in the inputs and follows Sentinel(k) in the targets. (For a
// mask that starts with a gap and ends with a span this is T5's complement: each visible gap becomes a sentinel.)
// Error(kUsage) if the tokenizer has too few sentinels.
CorruptedExample ApplySpanMask(std::span<const int32_t> tokens, const std::vector<bool>& mask,
                               const Tokenizer& tokenizer);
// Both together.
CorruptedExample CorruptSpans(std::span<const int32_t> tokens, uint64_t seed, int64_t example,
                              const SpanCorruptionOptions& options, const Tokenizer& tokenizer);

}  // namespace crosstalk
