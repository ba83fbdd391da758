#include "crosstalk/models/training/objectives/masked_lm.h"

#include <gtest/gtest.h>

#include <numeric>

#include "crosstalk/models/text/dataset.h"

namespace crosstalk::masked_lm_test {

RandomSequence Sequence(int64_t example) { return RandomSequence(ExampleKey(7, "test", example)); }

// `count` fits n draws of probability p: 7 in a million are more than 4.5 standard deviations away.
void ExpectShare(int64_t count, int64_t n, double p, const char* what) {
  const double bound = 4.5 * std::sqrt(static_cast<double>(n) * p * (1 - p));
  EXPECT_NEAR(static_cast<double>(count), static_cast<double>(n) * p, bound) << what << " of " << n;
}

std::vector<std::vector<TokenRun>> OneSegment(const std::vector<int64_t>& word_lengths) {
  std::vector<TokenRun> words;
  int64_t at = 1;
  for (const int64_t length : word_lengths) {
    words.push_back({at, at + length});
    at += length;
  }
  return {words};
}

TEST(MaskedLmTest, TheCountIsAShareOfTheRow) {
  EXPECT_EQ(CountMasked(128, 125, 0.15, 20), 19);  // 19.2
  EXPECT_EQ(CountMasked(512, 509, 0.15, 77), 77);  // 76.8
  EXPECT_EQ(CountMasked(128, 125, 0.15, 10), 10);
  EXPECT_EQ(CountMasked(10, 7, 0.25, 20), 2);   // half to even: 2.5
  EXPECT_EQ(CountMasked(14, 11, 0.25, 20), 4);  // 3.5
  EXPECT_EQ(CountMasked(5, 2, 0.01, 20), 1);
  EXPECT_EQ(CountMasked(5, 2, 0.99, 20), 2);
}

TEST(MaskedLmTest, TokensAreEachAsLikely) {
  const std::vector<TokenRun> runs = {{1, 9}, {10, 14}};
  std::map<int64_t, int64_t> counts;
  constexpr int64_t kExamples = 20'000;
  for (int64_t example = 0; example < kExamples; ++example) {
    RandomSequence random = Sequence(example);
    const std::vector<int64_t> chosen = ChooseTokens(runs, 3, random);
    ASSERT_EQ(chosen.size(), 3u);
    ASSERT_LT(chosen[0], chosen[1]);
    ASSERT_LT(chosen[1], chosen[2]);
    for (const int64_t token : chosen) ++counts[token];
  }
  EXPECT_EQ(counts.size(), 12u);
  EXPECT_FALSE(counts.count(9));
  for (const auto& [token, count] : counts) ExpectShare(count, kExamples, 3.0 / 12, "a token");
  RandomSequence random = Sequence(0);
  EXPECT_EQ(ChooseTokens(runs, 12, random).size(), 12u);
}

TEST(MaskedLmTest, WordsBeginWhereTheTokenizerSaysAndWithTheirSegment) {
  const std::vector<bool> starts = {true, false, true, false, false, true, true, true, false};
  const std::vector<TokenRun> words = WordsOf({1, 7}, starts);
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const TokenRun& word : words) ranges.emplace_back(word.begin, word.end);
  EXPECT_EQ(ranges, (std::vector<std::pair<int64_t, int64_t>>{{1, 2}, {2, 5}, {5, 6}, {6, 7}}));
}

TEST(MaskedLmTest, AnNgramIsOneToThreeWordsWithProbabilityOneOverN) {
  const auto words = OneSegment(std::vector<int64_t>(40, 1));
  std::array<int64_t, 4> lengths = {};
  std::map<int64_t, int64_t> firsts;
  constexpr int64_t kExamples = 20'000;
  for (int64_t example = 0; example < kExamples; ++example) {
    RandomSequence random = Sequence(example);
    const TokenRun first = ChooseNgrams(words, 6, random)[0];
    ++firsts[first.begin];
    // At the end of the segment there are not three words to draw from.
    if (first.begin <= 38) ++lengths[first.end - first.begin];
  }
  const int64_t drawn = lengths[1] + lengths[2] + lengths[3];
  ExpectShare(lengths[1], drawn, 6.0 / 11, "1-grams");
  ExpectShare(lengths[2], drawn, 3.0 / 11, "2-grams");
  ExpectShare(lengths[3], drawn, 2.0 / 11, "3-grams");
  EXPECT_EQ(firsts.size(), 40u);
  for (const auto& [begin, count] : firsts) ExpectShare(count, kExamples, 1.0 / 40, "a word that opens an n-gram");
}

TEST(MaskedLmTest, NgramsAreWholeWordsWithinTheirSegmentAndTheBudget) {
  // Words of 1 to 5 tokens in two segments, with a separator between.
  std::vector<std::vector<TokenRun>> segments;
  std::map<int64_t, int64_t> segment_of, word_of;
  int64_t at = 1, words = 0;
  for (int64_t segment = 0; segment < 2; ++segment, ++at) {
    segments.emplace_back();
    for (int64_t i = 0; i < 20; ++i, ++words) {
      const int64_t length = 1 + (i * 7 + segment) % 5;
      segments.back().push_back({at, at + length});
      for (int64_t end = at + length; at < end; ++at) {
        segment_of[at] = segment;
        word_of[at] = words;
      }
    }
  }
  int64_t full = 0;
  for (int64_t example = 0; example < 3000; ++example) {
    const int64_t budget = 1 + example % 30;
    RandomSequence random = Sequence(example);
    std::set<int64_t> covered;
    for (const TokenRun& run : ChooseNgrams(segments, budget, random)) {
      std::set<int64_t> run_words;
      for (int64_t token = run.begin; token < run.end; ++token) {
        ASSERT_TRUE(covered.insert(token).second) << "two n-grams meet at " << token;
        ASSERT_TRUE(segment_of.count(token)) << "no token of a segment";
        ASSERT_EQ(segment_of[token], segment_of[run.begin]);
        run_words.insert(word_of[token]);
      }
      EXPECT_LE(run_words.size(), 3u);
      // Whole: what stands before and after is of other words.
      EXPECT_FALSE(word_of.count(run.begin - 1) && word_of[run.begin - 1] == word_of[run.begin]);
      EXPECT_FALSE(word_of.count(run.end) && word_of[run.end] == word_of[run.end - 1]);
    }
    ASSERT_LE(std::ssize(covered), budget);
    full += std::ssize(covered) == budget;
  }
  EXPECT_EQ(full, 3000);  // words of one token fill what is left
  RandomSequence random = Sequence(0);
  EXPECT_TRUE(ChooseNgrams(OneSegment({4, 5, 6}), 3, random).empty()) << "no word fits";
  EXPECT_EQ(ChooseNgrams(OneSegment({4, 5, 6}), 4, random).size(), 1u);
}

TEST(MaskedLmTest, HiddenTokensBecomeMaskRandomOrThemselves) {
  constexpr int32_t kMask = 1000;
  const std::vector<int32_t> ordinary = {10, 11, 12, 13};
  constexpr int64_t kTokens = 50'000;
  std::vector<int64_t> positions;
  for (int64_t i = 1; i <= kTokens; ++i) positions.push_back(2 * i);
  std::vector<int32_t> ids(2 * kTokens + 2, 500);
  RandomSequence random = Sequence(0);
  HideTokens(positions, kMask, ordinary, random, ids);
  std::map<int32_t, int64_t> counts;
  for (const int64_t position : positions) ++counts[ids[position]];
  for (size_t i = 1; i < ids.size(); i += 2) ASSERT_EQ(ids[i], 500);
  ExpectShare(counts[kMask], kTokens, 0.8, "masked");
  ExpectShare(counts[500], kTokens, 0.1, "kept");
  for (const int32_t id : ordinary) ExpectShare(counts[id], kTokens, 0.025, "replaced");
}

TEST(MaskedLmTest, OrdinaryIdsAreThoseOfText) {
  const std::vector<int32_t> ids = OrdinaryIds(*MakeByteTokenizer(7, MaskTokens::kYes));
  std::vector<int32_t> bytes(256);
  std::iota(bytes.begin(), bytes.end(), 3);
  EXPECT_EQ(ids, bytes);
}

TEST(MaskedLmTest, APairIsCutFromTheLongerOneInFrontOrBehind) {
  std::vector<int32_t> long_one(60), short_one = {900, 901, 902, 903};
  std::iota(long_one.begin(), long_one.end(), 0);
  int64_t front = 0;
  for (int64_t example = 0; example < 500; ++example) {
    std::vector<int32_t> a = long_one, b = short_one;
    if (example % 2 == 1) std::swap(a, b);
    RandomSequence random = Sequence(example);
    TruncatePair(24, random, a, b);
    if (example % 2 == 1) std::swap(a, b);
    EXPECT_EQ(b, short_one);
    ASSERT_EQ(a.size(), 20u);
    EXPECT_EQ(a.back() - a.front(), 19);
    front += a.front();
  }
  ExpectShare(front, 500 * 40, 0.5, "tokens cut in front");
  std::vector<int32_t> a = long_one, b = long_one;
  RandomSequence random = Sequence(1);
  TruncatePair(31, random, a, b);
  EXPECT_EQ(std::pair(a.size(), b.size()), std::pair(size_t{16}, size_t{15}));
  TruncatePair(31, random, a, b);
  EXPECT_EQ(a.size() + b.size(), 31u);
}

}  // namespace crosstalk::masked_lm_test
