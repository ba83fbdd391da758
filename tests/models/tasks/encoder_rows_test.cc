#include "crosstalk/models/tasks/encoder_rows.h"

#include <gtest/gtest.h>

#include "crosstalk/runtime/random.h"

namespace crosstalk::encoder_rows_test {

using Spans = std::vector<TokenSpan>;

// Windows over a passage, with logits that are small integers, so that many are equal.
std::vector<WindowScores> RandomWindows(int64_t tokens, int64_t room, int64_t stride, int64_t question,
                                        RandomSequence& random) {
  std::vector<WindowScores> windows;
  for (const PassageWindow& window : LayWindows(tokens, room, stride)) {
    WindowScores& scores = windows.emplace_back(WindowScores{window, 2 + question, {}, {}});
    for (int64_t i = 0; i < scores.passage_at + window.end - window.begin + 1; ++i) {
      scores.starts.push_back(static_cast<double>(random.UniformInt(9)));
      scores.ends.push_back(static_cast<double>(random.UniformInt(9)));
    }
  }
  return windows;
}

// How many places are likelier.
int64_t RankOf(const std::vector<double>& logits, int64_t place) {
  int64_t rank = 0;
  for (int64_t i = 0; i < std::ssize(logits); ++i) {
    rank += logits[i] > logits[place] || (logits[i] == logits[place] && i < place);
  }
  return rank;
}

int64_t MostContext(const std::vector<WindowScores>& windows, int64_t token) {
  int64_t best = -1;
  double most = -1;
  for (int64_t w = 0; w < std::ssize(windows); ++w) {
    const auto [begin, end] = windows[w].window;
    if (token < begin || token >= end) continue;
    // As published: the shorter side, and a hundredth of the window's length.
    const double context =
        static_cast<double>(std::min(token - begin, end - token - 1)) + 0.01 * static_cast<double>(end - begin);
    if (context > most) most = context, best = w;
  }
  return best;
}

// Every start with every end of every window.
BestSpan ByTrial(const std::vector<WindowScores>& windows, const EncoderTaskOptions& options, bool ranked) {
  BestSpan best;
  for (int64_t w = 0; w < std::ssize(windows); ++w) {
    const WindowScores& one = windows[w];
    for (int64_t start = one.window.begin; start < one.window.end; ++start) {
      for (int64_t last = start; last < one.window.end && last < start + options.answer_length; ++last) {
        const int64_t i = start - one.window.begin + one.passage_at, j = last - one.window.begin + one.passage_at;
        if (ranked && RankOf(one.starts, i) >= options.best_ends) continue;
        if (ranked && RankOf(one.ends, j) >= options.best_ends) continue;
        if (MostContext(windows, start) != w) continue;
        const double score = one.starts[i] + one.ends[j];
        const bool better = !best.tokens || score > best.score ||
                            (score == best.score && (start < best.tokens->begin ||
                                                     (start == best.tokens->begin && last + 1 < best.tokens->end)));
        if (!better) continue;
        best.tokens = PassageWindow{start, last + 1};
        best.score = score;
      }
    }
  }
  return best;
}

TEST(BestSpanTest, IsThatOfATrialOfEveryPair) {
  RandomSequence random(RandomKey{1, StreamId("best_span_test"), 0});
  int fallbacks = 0, several = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const auto draw = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random.UniformInt(high - low + 1));
    };
    EncoderTaskOptions options;
    options.answer_length = draw(1, 6);
    options.best_ends = draw(1, 12);
    const std::vector<WindowScores> windows = RandomWindows(draw(1, 40), draw(1, 15), draw(1, 8), draw(0, 4), random);
    several += windows.size() > 1;
    BestSpan expected = ByTrial(windows, options, true);
    if (!expected.tokens) {
      expected = ByTrial(windows, options, false);
      ++fallbacks;
    }
    const BestSpan found = FindBestSpan(windows, options);
    ASSERT_TRUE(found.tokens && expected.tokens) << trial;
    EXPECT_EQ(found.score, expected.score) << trial;
    EXPECT_EQ(found.tokens->begin, expected.tokens->begin) << trial;
    EXPECT_EQ(found.tokens->end, expected.tokens->end) << trial;
    double none = windows[0].starts[0] + windows[0].ends[0];
    for (const WindowScores& window : windows) none = std::min(none, window.starts[0] + window.ends[0]);
    EXPECT_EQ(found.none, none);
  }
  EXPECT_GT(fallbacks, 20);
  EXPECT_GT(several, 100);
}

TEST(BestSpanTest, APassageWithoutTokensHasNone) {
  const WindowScores empty = {{0, 0}, 3, {1, 9, 9, 9}, {2, 9, 9, 9}};
  const BestSpan best = FindBestSpan(std::vector<WindowScores>{empty}, {});
  EXPECT_FALSE(best.tokens);
  EXPECT_EQ(best.none, 3);
}

TEST(BestSpanTest, TheTextIsThePassagesOwn) {
  const std::shared_ptr<const Tokenizer> bert = LoadTokenizer(
      "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncafe\nnoir\n##s\n\xE4\xB8\xAD\n\xE5\x9B\xBD\nx\n,\n##t\n", "vocab.txt", 0);
  const std::string passage =
      "X Caf\xC3\xA9s,  NOIR \xE4\xB8\xAD\xE5\x9B\xBDx \xF0\x9F\x98\x80\xEF\xB8\x8F "
      "Cafe\xCC\x81 cafe\xCC\x81\xCC\xA3t";
  const Spans tokens = bert->EncodeSpans(passage);
  const auto text = [&](int64_t begin, int64_t end) { return SpanText(passage, tokens, {begin, end}); };
  ASSERT_EQ(tokens.size(), 12u);
  EXPECT_EQ(text(0, 1), "X");
  EXPECT_EQ(text(1, 2), "Caf\xC3\xA9");
  EXPECT_EQ(text(1, 3), "Caf\xC3\xA9s");
  EXPECT_EQ(text(2, 5), "s,  NOIR");  // the passage's spaces, not the pieces'
  EXPECT_EQ(text(5, 6), "\xE4\xB8\xAD");
  EXPECT_EQ(text(5, 8), "\xE4\xB8\xAD\xE5\x9B\xBDx");
  // An emoji with its variation selector, accents that are characters of their own: no token covers them.
  EXPECT_EQ(text(8, 9), "\xF0\x9F\x98\x80\xEF\xB8\x8F");
  EXPECT_EQ(text(9, 10), "Cafe\xCC\x81");
  EXPECT_EQ(text(10, 11), "cafe\xCC\x81\xCC\xA3");
  EXPECT_EQ(text(10, 12), "cafe\xCC\x81\xCC\xA3t");
  EXPECT_EQ(text(0, 12), passage);
}

TEST(BestSpanTest, TheTextHasWholeCharactersAndNoSpaceAround) {
  const std::string passage = "a \xC3\xA9\xE4\xB8\xADz\xC2\xA0 ";  // U+00A0 is white space
  const Spans tokens = MakeByteTokenizer(0)->EncodeSpans(passage);
  const std::pair<PassageWindow, const char*> kCases[] = {{{2, 3}, "\xC3\xA9"},
                                                          {{3, 4}, "\xC3\xA9"},
                                                          {{3, 6}, "\xC3\xA9\xE4\xB8\xAD"},
                                                          {{6, 8}, "\xE4\xB8\xADz"},
                                                          {{1, 4}, "\xC3\xA9"},
                                                          {{7, 11}, "z"},
                                                          {{1, 2}, ""}};
  for (const auto& [span, text] : kCases) EXPECT_EQ(SpanText(passage, tokens, span), text);
  // As SentencePiece's tokens have them: with the space before the word.
  EXPECT_EQ(SpanText(passage, Spans{{1, 0, 1}, {2, 1, 7}}, {1, 2}), "\xC3\xA9\xE4\xB8\xAD");
}

}  // namespace crosstalk::encoder_rows_test
