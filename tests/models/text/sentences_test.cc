#include "crosstalk/models/text/sentences.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace sentences_test {

using Texts = std::vector<std::string>;

Texts Split(const std::string& text) {
  Texts sentences;
  for (const TextRange& range : SplitSentences(text)) sentences.push_back(SentenceText(text, range));
  return sentences;
}

TEST(SentencesTest, AMarkAndASpaceEndASentence) {
  EXPECT_EQ(Split("He came. She went! Why? Nobody… Well."),
            (Texts{"He came.", "She went!", "Why?", "Nobody…", "Well."}));
  EXPECT_EQ(Split("  One line\nand its\t end.  Two. \n"), (Texts{"One line and its end.", "Two."}));
  EXPECT_EQ(Split("Version 3.14 of www.site.org. It runs... Fast?! Yes"),
            (Texts{"Version 3.14 of www.site.org.", "It runs...", "Fast?!", "Yes"}));
  EXPECT_EQ(Split(""), Texts{});
  EXPECT_EQ(Split(" \n\n "), Texts{});
}

TEST(SentencesTest, ClosingMarksBelongToTheSentenceAndOpeningOnesToTheNext) {
  EXPECT_EQ(Split("\"Stop!\" He did. (And then?) \"Go.\" 'Why?' [Sic.] «Non.» “So.”"),
            (Texts{"\"Stop!\"", "He did.", "(And then?)", "\"Go.\"", "'Why?'", "[Sic.]", "«Non.»", "“So.”"}));
  EXPECT_EQ(Split("\"Stop!\" he cried. \"Why?\" — asked she. Oh! , no."),
            (Texts{"\"Stop!\" he cried.", "\"Why?\" — asked she.", "Oh! , no."}));
}

TEST(SentencesTest, AbbreviationsAndInitialsGoOn) {
  EXPECT_EQ(Split("Mr. Smith met Dr. J. B. Jones at St. Paul's. So did I. They left."),
            (Texts{"Mr. Smith met Dr. J. B. Jones at St. Paul's.", "So did I.", "They left."}));
  EXPECT_EQ(Split("Gen. Lee, cf. Fig. 3, won. Amr. Then?"), (Texts{"Gen. Lee, cf. Fig. 3, won.", "Amr.", "Then?"}));
  EXPECT_EQ(Split("Is it Mr.? Yes. Was it Mr.\" No."), (Texts{"Is it Mr.?", "Yes.", "Was it Mr.\"", "No."}));
}

TEST(SentencesTest, ABlankLineEndsAParagraph) {
  EXPECT_EQ(Split("A title\n\nA text of two\nlines\n \t\nmore\r\n\r\nlast"),
            (Texts{"A title", "A text of two lines", "more", "last"}));
}

TEST(SentencesTest, OtherScriptsHaveTheirMarks) {
  EXPECT_EQ(Split("他来了。她走了！「为什么？」没人知道"), (Texts{"他来了。", "她走了！", "「为什么？」", "没人知道"}));
  EXPECT_EQ(Split("Он пришёл. Она ушла, т. е. исчезла. — Да! — сказал он. Всё."),
            (Texts{"Он пришёл.", "Она ушла, т. е. исчезла.", "— Да! — сказал он.", "Всё."}));
  EXPECT_EQ(Split("वह आया। वह गई। क्यों?"), (Texts{"वह आया।", "वह गई।", "क्यों?"}));
  EXPECT_EQ(Split("هل جاء؟ نعم۔ ثم ذهب."), (Texts{"هل جاء؟", "نعم۔", "ثم ذهب."}));
  EXPECT_EQ(Split("Ήρθε. Έφυγε; έμεινε. και"), (Texts{"Ήρθε.", "Έφυγε; έμεινε. και"}));
}

TEST(SentencesTest, TextWithoutMarksIsCut) {
  std::string words, signs;
  for (int i = 0; i < 1000; ++i) {
    words += StrCat("word", i, " ");
    signs += "水";
  }
  std::string joined;
  for (const std::string& sentence : Split(words)) {
    EXPECT_LE(std::ssize(sentence), kLongestSentence);
    const bool last = joined.size() + sentence.size() + 1 == words.size();
    EXPECT_TRUE(last || std::ssize(sentence) > kLongestSentence - 10) << sentence;
    joined += sentence + " ";
  }
  EXPECT_EQ(joined, words);
  joined.clear();
  for (const std::string& sentence : Split(signs)) {
    EXPECT_LE(std::ssize(sentence), kLongestSentence);
    EXPECT_EQ(FindInvalidUtf8(sentence), std::string::npos);
    joined += sentence;
  }
  EXPECT_EQ(joined, signs);
}

// What a reader that asks for text piece by piece relies on, tried on texts that are made of what the rule looks at.
TEST(SentencesTest, TheSentencesOfABeginningAreThoseOfTheWhole) {
  const Texts pieces = {"a",  "B",  "Mr", ".", "?", "…",    "。", "\"", "”", "(",  "—",     " ",
                        "\n", "\n", " ",  "ж", "Ж", "word", ",",  "水", "I", "  ", "\t\t ", std::string(90, 'x')};
  for (int round = 0; round < 300; ++round) {
    RandomSequence random(RandomKey{1, 2, static_cast<uint32_t>(round)});
    std::string text;
    const size_t size = round % 3 == 0 ? 1500 : 120;
    while (text.size() < size) {
      const std::string& piece = pieces[random.UniformInt(pieces.size())];
      // Long runs of one piece reach past the longest sentence.
      for (uint64_t n = random.UniformInt(round % 10 == 0 ? 300 : 2) + 1; n > 0; --n) text += piece;
    }
    const std::vector<TextRange> whole = SplitSentences(text);
    for (const TextRange& range : whole) EXPECT_LE(range.end - range.begin, 2 * kLongestSentence);
    for (size_t cut = 0; cut < text.size(); cut += 1 + text.size() / 150) {
      if (IsUtf8Continuation(text[cut])) continue;
      std::vector<TextRange> part = SplitSentences(std::string_view(text).substr(0, cut));
      if (!part.empty()) part.pop_back();
      ASSERT_LE(part.size(), whole.size());
      ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin())) << text << "\ncut at " << cut;
    }
  }
}

}  // namespace sentences_test
}  // namespace crosstalk
