#include "crosstalk/runtime/text.h"

#include <gtest/gtest.h>

namespace crosstalk {
namespace text_test {

TEST(TextTest, JoinInvertsSplit) {
  for (const char* text : {"", "a", "a,,b", ","}) EXPECT_EQ(Join(Split(text, ','), ","), text);
  EXPECT_EQ(Split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
}

TEST(TextTest, TheNearestNameIsTheOneWithTheFewestEdits) {
  const std::vector<std::string> names = {"multihead", "talking", "bilinear"};
  EXPECT_EQ(NearestName("taking", names), "talking");
  EXPECT_EQ(NearestName("bilinaer", names), "bilinear");
  EXPECT_EQ(NearestName("xyz", names), "");
  EXPECT_EQ(NearestName("talking", {}), "");
  EXPECT_EQ(NearestName("tarin", {"eval", "train"}), "train");  // two letters that are swapped are one edit
  EXPECT_EQ(NearestName("--batch-size", {"--batch", "--beams"}), "--batch");
  EXPECT_EQ(NearestName("--temp", {"--texts", "--temperature"}), "--temperature");
  EXPECT_EQ(NearestName("--sead", {"--seed", "--steps"}), "--seed");
}

TEST(TextTest, AnotherWordIsNotNear) {
  const std::vector<std::string> options = {"--dropout", "--out", "--steps", "--clip", "--seed"};
  for (const char* word : {"--prompt", "--group", "--epochs", "--lr", "--help-me", "--verbose", "--x"}) {
    EXPECT_EQ(NearestName(word, options), "") << word;
  }
}

TEST(TextTest, DidYouMeanSaysNothingWhereNothingIsNear) {
  EXPECT_EQ(DidYouMean("tlaking", {"talking"}), "; did you mean \"talking\"?");
  EXPECT_EQ(DidYouMean("x", {"talking"}), "");
}

TEST(TextTest, AnExcerptIsOneLineOfBoundedLength) {
  EXPECT_EQ(Excerpt("naïve 模型 \"x\" \\"), "naïve 模型 \"x\" \\");
  EXPECT_EQ(Excerpt("a\nb\tc\r\x1b[31m\x7f\xc2\x85"), "a\\nb\\tc\\x0d\\x1b[31m\\x7f\\xc2\\x85");
  EXPECT_EQ(Excerpt(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(Excerpt("\xff\xc0\x80 \xe4\xb8"), "\\xff\\xc0\\x80 \\xe4\\xb8");
  EXPECT_EQ(Excerpt(std::string(100, 'a')), std::string(100, 'a'));
  EXPECT_EQ(Excerpt(std::string(101, 'a')), std::string(100, 'a') + "… (101 bytes)");
  EXPECT_EQ(Excerpt("模型模型", 7), "模型… (12 bytes)");  // no character is cut
  EXPECT_LT(Excerpt(std::string(90'000'000, '\x01')).size(), 500u);
  EXPECT_EQ(Quoted("a\n"), "\"a\\n\"");
}

TEST(TextTest, NothingIsNearToATextOfAnyLength) {
  EXPECT_EQ(NearestName(std::string(90'000'000, 'a'), {std::string(80, 'a')}), "");
}

}  // namespace text_test
}  // namespace crosstalk
