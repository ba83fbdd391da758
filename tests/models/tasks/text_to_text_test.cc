#include "crosstalk/models/tasks/text_to_text.h"

#include <gtest/gtest.h>

#include "crosstalk/runtime/text.h"

namespace crosstalk::text_to_text_test {

std::string Normalised(const std::string& text) { return Join(AnswerWords(text), "|"); }

// Each as Python 3.11 has it: the words of re.sub(r"\b(a|an|the)\b", " ", …) of text.lower() without
// string.punctuation, split.
TEST(AnswerTextTest, NormalisesAsPythonDoes) {
  constexpr struct {
    const char *text, *words;
  } kCases[] = {
      {"", ""},
      {"The", ""},
      {"a big  Moose!", "big|moose"},
      {"An apple a day.", "apple|day"},
      {"the-an", "thean"},  // punctuation goes before articles do
      {"a_an", "aan"},
      {"U.S.A.", "usa"},
      {"a1 1a theatre", "a1|1a|theatre"},
      {"theé thé the\u0301 e", "theé|thé|\u0301|e"},  // é is of a word, a combining accent is not
      {"“the” —a— ‘an’", "“|”|—|—|‘|’"},              // punctuation beyond ASCII stays
      {"the\u00A0end\u2003of\u3000it", "end|of|it"},
      {"x\x1C"
       "a\x1Fy\x0B\x85",
       "x|y|\uFFFD"},                    // a byte that is no UTF-8 is U+FFFD
      {"one\u200Btwo", "one\u200Btwo"},  // the zero width space is none
      {"ÀÉÎÕÜ Ж İ", "àéîõü|ж|i\u0307"},
      {"ΟΔΟΣ ΣΑΣ Σ ΑΣ'Β ΑΣ.", "οδος|σας|σ|ασβ|ας"},  // σ and ς
      {"ⅫΣ ªΣ 1Σ", "ⅻς|ªς|1σ"},
      {"A½ a² ٣a", "a½|a²|٣a"},  // numbers are of a word
      {"中a the中", "中a|the中"},
      {"$5 <b> ^a` +a| ~", "5|b"},
      {"ẞ Ǆ Ԑ Ａ", "ß|ǆ|ԑ|ａ"},
  };
  for (const auto& one : kCases) EXPECT_EQ(Normalised(one.text), one.words) << one.text;
}

TEST(AnswerTextTest, WordsCountAsOftenAsBothHaveThem) {
  const AnswerMatch match = BestMatch("x y y z", {"y y y w"}, NoWords::kScoreZero);
  EXPECT_EQ(match.exact, 0);
  EXPECT_EQ(match.f1, 0.5);
  // 2·(1/3)·(1/7) / (1/3 + 1/7), each step rounded: Python prints this.
  EXPECT_EQ(BestMatch("p q r", {"p b c d e f g"}, NoWords::kScoreZero).f1, 0.2);
  EXPECT_EQ(BestMatch("p q r", {"p q c d e f g h"}, NoWords::kScoreZero).f1, 0.36363636363636365);
}

TEST(AnswerTextTest, TheBestRightAnswerCountsForEachMeasure) {
  const AnswerMatch match = BestMatch("correct2.2", {"correct2.1", "Correct2.2!", "nothing"}, NoWords::kScoreZero);
  EXPECT_EQ(match.exact, 1);
  EXPECT_EQ(match.f1, 1);
}

TEST(AnswerTextTest, WithoutWordsTheTwoSquadsDiffer) {
  EXPECT_EQ(BestMatch("the", {"!"}, NoWords::kScoreZero).exact, 1);
  EXPECT_EQ(BestMatch("the", {"!"}, NoWords::kScoreZero).f1, 0);
  EXPECT_EQ(BestMatch("the", {""}, NoWords::kMatchEachOther).f1, 1);
  EXPECT_EQ(BestMatch("x", {""}, NoWords::kMatchEachOther).f1, 0);
  EXPECT_EQ(BestMatch("", {"x"}, NoWords::kMatchEachOther).f1, 0);
}

}  // namespace crosstalk::text_to_text_test
