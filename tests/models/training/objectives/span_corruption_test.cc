#include "crosstalk/models/training/objectives/span_corruption.h"

#include <numeric>

#include "tests/support/messages.h"

namespace crosstalk::span_corruption_test {

const SpanCorruptionOptions kT5;

// The published computation: grow the raw length while the inputs fit; at density 0.5, if the targets come out longer
// than the inputs, take one off both raw and targets. (Ours always hides a span; here a few hidden tokens would round
// to none, so this is for lengths above that.)
SpanLengths PublishedLengths(int64_t input_length, const SpanCorruptionOptions& options) {
  const auto lengths = [&](int64_t raw) {
    const auto noise = std::llrint(static_cast<double>(raw) * options.noise_density);  // rounds half to even
    const auto spans = std::llrint(static_cast<double>(noise) / options.mean_span_length);
    return SpanLengths{raw, raw - noise + spans + 1, noise + spans + 1};
  };
  SpanLengths best = lengths(input_length);
  while (lengths(best.raw + 1).inputs <= input_length) best = lengths(best.raw + 1);
  if (options.noise_density == 0.5 && best.targets > best.inputs) {
    --best.raw;
    --best.targets;
  }
  return best;
}

TEST(SpanCorruptionTest, LengthsAreThePublishedOnesAtEveryDensity) {
  int taken_off = 0, padded = 0;
  for (const SpanCorruptionOptions& options :
       {kT5, SpanCorruptionOptions{0.5, 3}, SpanCorruptionOptions{0.5, 2}, SpanCorruptionOptions{0.5, 10},
        SpanCorruptionOptions{0.3, 3}, SpanCorruptionOptions{0.3, 4}}) {
    for (int64_t n = 16; n < 700; ++n) {
      const SpanLengths lengths = LengthsForInputs(n, options), published = PublishedLengths(n, options);
      EXPECT_EQ(lengths.raw, published.raw) << n;
      EXPECT_EQ(lengths.inputs, published.inputs) << n;
      EXPECT_EQ(lengths.targets, published.targets) << n;
      const SpanCounts counts = CountSpans(lengths.raw, options);
      const int64_t inputs = lengths.raw - counts.noise_tokens + counts.spans + 1;
      const int64_t targets = counts.noise_tokens + counts.spans + 1;
      EXPECT_LE(inputs, lengths.inputs);
      EXPECT_LE(targets, lengths.targets);
      EXPECT_EQ(lengths.inputs - inputs, lengths.targets - targets);
      padded += inputs < lengths.inputs;
      if (options.noise_density == 0.5) {
        EXPECT_LE(lengths.targets, lengths.inputs) << n;
        taken_off += CountSpans(lengths.raw + 1, options).noise_tokens > counts.noise_tokens;
      }
    }
  }
  EXPECT_GT(taken_off, 100);
  EXPECT_GT(padded, 10);
  // T5's own, and what follows from the rule.
  const struct {
    SpanCorruptionOptions options;
    int64_t inputs, raw, targets;
  } kCases[] = {{kT5, 512, 568, 114}, {kT5, 128, 141, 29}, {kT5, 64, 70, 14}, {{0.5, 3}, 16, 22, 16}};
  for (const auto& [options, inputs, raw, targets] : kCases) {
    const SpanLengths lengths = LengthsForInputs(inputs, options);
    EXPECT_EQ((std::vector<int64_t>{lengths.raw, lengths.inputs, lengths.targets}),
              (std::vector<int64_t>{raw, inputs, targets}));
  }
}

TEST(SpanCorruptionTest, CountsRoundHalfToEven) {
  EXPECT_EQ(CountSpans(568, kT5).noise_tokens, 85);      // 85.2
  EXPECT_EQ(CountSpans(568, kT5).spans, 28);             // 28.3
  EXPECT_EQ(CountSpans(10, {0.25, 3}).noise_tokens, 2);  // 2.5
  EXPECT_EQ(CountSpans(14, {0.25, 3}).noise_tokens, 4);  // 3.5
  EXPECT_EQ(CountSpans(100, {0.05, 2}).spans, 2);        // 5 / 2 = 2.5
  EXPECT_EQ(CountSpans(140, {0.05, 2}).spans, 4);        // 7 / 2 = 3.5
  EXPECT_EQ(CountSpans(2, kT5).noise_tokens, 1);         // at least one
  EXPECT_EQ(CountSpans(4, {0.99, 3}).noise_tokens, 3);   // at most all but one
  EXPECT_EQ(CountSpans(100, {0.9, 1}).spans, 10);        // one gap each
}

TEST(SpanCorruptionTest, MasksHaveTheCountsAndStartWithAGapAndEndWithASpan) {
  for (int64_t length = 2; length < 200; length += length < 20 ? 1 : 7) {
    for (const SpanCorruptionOptions& options :
         {kT5, SpanCorruptionOptions{0.5, 3}, SpanCorruptionOptions{0.15, 10}, SpanCorruptionOptions{0.9, 1}}) {
      const SpanCounts counts = CountSpans(length, options);
      for (int64_t example = 0; example < 20; ++example) {
        const std::vector<bool> mask = SpanMask(length, 11, example, options);
        ASSERT_EQ(static_cast<int64_t>(mask.size()), length);
        int64_t noise = 0, spans = 0;
        for (size_t i = 0; i < mask.size(); ++i) {
          noise += mask[i];
          spans += mask[i] && (i == 0 || !mask[i - 1]);
        }
        EXPECT_EQ(noise, counts.noise_tokens) << "length " << length << ", example " << example;
        EXPECT_EQ(spans, counts.spans) << "length " << length << ", example " << example;
        EXPECT_FALSE(mask.front());
        EXPECT_TRUE(mask.back());
      }
    }
  }
}

// The raw tokens again, from inputs and targets: each sentinel of the inputs means the tokens after it in the targets.
std::vector<int32_t> Reassemble(const CorruptedExample& example, const Tokenizer& tokenizer) {
  std::map<int32_t, std::vector<int32_t>> spans;
  int32_t sentinel = -1;
  for (const int32_t id : example.targets) {
    if (id == tokenizer.special_tokens().end) break;
    if (tokenizer.IsSentinel(id)) {
      sentinel = id;
    } else {
      spans[sentinel].push_back(id);
    }
  }
  std::vector<int32_t> tokens;
  for (const int32_t id : example.inputs) {
    if (id == tokenizer.special_tokens().end) break;
    if (tokenizer.IsSentinel(id)) {
      tokens.insert(tokens.end(), spans[id].begin(), spans[id].end());
    } else {
      tokens.push_back(id);
    }
  }
  return tokens;
}

TEST(SpanCorruptionTest, InputsAndTargetsGiveTheTokensAgain) {
  const std::shared_ptr<const Tokenizer> tokenizer = MakeByteTokenizer(200);
  for (int64_t length : {2, 3, 9, 14, 70, 141, 568}) {
    std::vector<int32_t> tokens(length);
    for (int64_t i = 0; i < length; ++i) tokens[i] = static_cast<int32_t>(3 + (i * 37) % 256);
    for (uint64_t seed = 0; seed < 50; ++seed) {
      for (int64_t index = 0; index < 4; ++index) {
        const CorruptedExample example = CorruptSpans(tokens, seed, index, kT5, *tokenizer);
        const SpanCounts counts = CountSpans(length, kT5);
        ASSERT_EQ(Reassemble(example, *tokenizer), tokens) << "seed " << seed << ", length " << length;
        EXPECT_EQ(static_cast<int64_t>(example.inputs.size()), length - counts.noise_tokens + counts.spans + 1);
        EXPECT_EQ(static_cast<int64_t>(example.targets.size()), counts.noise_tokens + counts.spans + 1);
        EXPECT_EQ(example.inputs.back(), tokenizer->special_tokens().end);
        EXPECT_EQ(example.targets.back(), tokenizer->special_tokens().end);
        EXPECT_EQ(example.targets.front(), tokenizer->Sentinel(0));
        // Falling from the highest id, the same ones on both sides.
        for (const std::vector<int32_t>& side : {example.inputs, example.targets}) {
          int32_t next = tokenizer->vocab_size() - 1;
          for (const int32_t id : side) {
            if (tokenizer->IsSentinel(id)) {
              EXPECT_EQ(id, next--);
            }
          }
          EXPECT_EQ(tokenizer->vocab_size() - 1 - next, counts.spans);
        }
      }
    }
  }
}

// Ten ids of text, the special tokens among them, and sentinels.
class TenIds : public Tokenizer {
 public:
  explicit TenIds(const SpecialTokens& special_tokens) : Tokenizer(special_tokens, 10, 5) {}
  std::vector<int32_t> Encode(std::string_view) const override { return {}; }
  std::vector<TokenSpan> EncodeSpans(std::string_view) const override { return {}; }
  std::string Decode(std::span<const int32_t>) const override { return {}; }
  std::string kind() const override { return "ten"; }
  std::string FileName() const override { return {}; }
  std::string FileContents() const override { return {}; }

 private:
  bool ContinuesWord(int32_t, int32_t) const override { return false; }
};

TEST(SpanCorruptionTest, BothSidesEndWithTheTokenizersOwnEndToken) {
  const TenIds tokenizer({.pad = 9, .end = 7, .unknown = 8, .decoder_start = 9});
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 6};
  const CorruptedExample example = ApplySpanMask(tokens, {false, true, true, false, false, true}, tokenizer);
  EXPECT_EQ(example.inputs, (std::vector<int32_t>{1, 14, 4, 5, 13, 7}));
  EXPECT_EQ(example.targets, (std::vector<int32_t>{14, 2, 3, 13, 6, 7}));
}

TEST(SpanCorruptionTest, IsAFunctionOfSeedAndExample) {
  EXPECT_EQ(SpanMask(141, 1, 5, kT5), SpanMask(141, 1, 5, kT5));
  EXPECT_NE(SpanMask(141, 1, 5, kT5), SpanMask(141, 1, 6, kT5));
  EXPECT_NE(SpanMask(141, 1, 5, kT5), SpanMask(141, 2, 5, kT5));
  // These bits are part of what a resumed run relies on.
  const std::vector<bool> mask = SpanMask(40, 7, 3, kT5);
  std::string text;
  for (const bool hidden : mask) text += hidden ? '#' : '.';
  EXPECT_EQ(text, "....#####..............................#");
}

TEST(SpanCorruptionTest, EveryCompositionIsEquallyLikely) {
  // 10 tokens, 4 hidden in 2 spans: 3 compositions of 4 into 2, 5 of 6 into 2, so 15 masks.
  const SpanCorruptionOptions options{0.4, 2};
  std::map<std::vector<bool>, int> counts;
  constexpr int kDraws = 15000;
  for (int64_t example = 0; example < kDraws; ++example) ++counts[SpanMask(10, 3, example, options)];
  ASSERT_EQ(counts.size(), 15u);
  // Binomial: mean 1000, standard deviation sqrt(15000 · 1/15 · 14/15) = 30.6; 5 of them.
  for (const auto& [mask, count] : counts) EXPECT_NEAR(count, kDraws / 15, 153);
}

TEST(SpanCorruptionTest, RefusesWhatItCannotDo) {
  testing::ExpectRefused({{"one token", [] { CountSpans(1, kT5); }, {}},
                          {"nothing hidden",
                           [] {
                             CountSpans(10, {0.0, 3});
                           },
                           {}},
                          {"all hidden",
                           [] {
                             CountSpans(10, {1.0, 3});
                           },
                           {}},
                          {"half a token",
                           [] {
                             CountSpans(10, {0.15, 0.5});
                           },
                           {}},
                          {"two inputs", [] { LengthsForInputs(2, kT5); }, {}},
                          {"too few sentinels",
                           [] { CorruptSpans(std::vector<int32_t>(141, 5), 0, 0, kT5, *MakeByteTokenizer(3)); },
                           {"7 spans"}}});
}

TEST(SpanCorruptionTest, LengthsForInputsAreTheLongestThatFitHoweverLongTheyAre) {
  for (const double density : {0.001, 0.15, 0.4, 0.9, 0.999}) {
    for (const double span : {1.0, 3.0, 50.0}) {
      const SpanCorruptionOptions options = {density, span};
      const auto inputs_of = [&](int64_t raw) {
        const SpanCounts counts = CountSpans(raw, options);
        return raw - counts.noise_tokens + counts.spans + 1;
      };
      for (int64_t inputs = 3; inputs < int64_t{1} << 41; inputs += inputs < 20 ? 1 : 1 + inputs / 3) {
        const SpanLengths lengths = LengthsForInputs(inputs, options);
        EXPECT_EQ(lengths.inputs, inputs_of(lengths.raw)) << density << ", " << span << ", " << inputs;
        EXPECT_LE(inputs_of(lengths.raw), inputs) << density << ", " << span;
        EXPECT_GT(inputs_of(lengths.raw + 1), inputs) << density << ", " << span;
      }
      EXPECT_THROW(LengthsForInputs(INT64_MAX, options), Error);
    }
  }
}

}  // namespace crosstalk::span_corruption_test
