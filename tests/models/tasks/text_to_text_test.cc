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

// The right answer that gives most counts for each measure; without words the two SQuADs differ.
TEST(AnswerTextTest, WordsCountAsOftenAsBothHaveThem) {
  constexpr NoWords kZero = NoWords::kScoreZero, kMatch = NoWords::kMatchEachOther;
  const struct {
    const char* answer;
    std::vector<std::string> right;
    NoWords no_words;
    double exact, f1;
  } kCases[] = {{"x y y z", {"y y y w"}, kZero, 0, 0.5},
                // 2·(1/3)·(1/7) / (1/3 + 1/7), each step rounded: Python prints this.
                {"p q r", {"p b c d e f g"}, kZero, 0, 0.2},
                {"p q r", {"p q c d e f g h"}, kZero, 0, 0.36363636363636365},
                {"correct2.2", {"correct2.1", "Correct2.2!", "nothing"}, kZero, 1, 1},
                {"the", {"!"}, kZero, 1, 0},
                {"the", {""}, kMatch, 1, 1},
                {"x", {""}, kMatch, 0, 0},
                {"", {"x"}, kMatch, 0, 0}};
  for (const auto& [answer, right, no_words, exact, f1] : kCases) {
    EXPECT_EQ(BestMatch(answer, right, no_words).exact, exact) << answer;
    EXPECT_EQ(BestMatch(answer, right, no_words).f1, f1) << answer;
  }
}

}  // namespace crosstalk::text_to_text_test
