#include "crosstalk/runtime/text.h"

#include <gtest/gtest.h>

#include <string>

namespace crosstalk {
namespace text_test {

TEST(TextTest, JoinInvertsSplit) {
  for (const char* text : {"", "a", "a,,b", ","}) EXPECT_EQ(Join(Split(text, ','), ","), text);
  EXPECT_EQ(Split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
}

TEST(TextTest, TheNearestNameIsTheOneWithTheFewestEditsIfAny) {
  using Names = std::vector<std::string>;
  const Names kinds = {"multihead", "talking", "bilinear"};
  const struct {
    const char* word;
    Names names;
    const char* nearest;
  } rows[] = {{"taking", kinds, "talking"},
              {"bilinaer", kinds, "bilinear"},
              {"xyz", kinds, ""},
              {"talking", {}, ""},
              {"tarin", {"eval", "train"}, "train"},  // two letters that are swapped are one edit
              {"--batch-size", {"--batch", "--beams"}, "--batch"},
              {"--temp", {"--texts", "--temperature"}, "--temperature"},
              {"--sead", {"--seed", "--steps"}, "--seed"}};
  for (const auto& [word, names, nearest] : rows) EXPECT_EQ(NearestName(word, names), nearest) << word;
  for (const char* word : {"--prompt", "--group", "--epochs", "--lr", "--help-me", "--verbose", "--x"}) {
    EXPECT_EQ(NearestName(word, {"--dropout", "--out", "--steps", "--clip", "--seed"}), "") << word;
  }
  EXPECT_EQ(NearestName(std::string(90'000'000, 'a'), {std::string(80, 'a')}), "");
  EXPECT_EQ(DidYouMean("tlaking", kinds), "; did you mean \"talking\"?");
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

TEST(Utf8Test, InvalidUtf8IsFoundAtItsFirstByte) {
  constexpr size_t kNone = std::string_view::npos;
  EXPECT_EQ(FindInvalidUtf8("plain, é, €, \xf0\x9f\x98\x80, \xf4\x8f\xbf\xbf"), kNone);
  EXPECT_EQ(FindInvalidUtf8("ab\x80"), 2u);
  EXPECT_EQ(FindInvalidUtf8("a\xc1\x81"), 1u);             // overlong
  EXPECT_EQ(FindInvalidUtf8("\xe0\x9f\xbf"), 0u);          // overlong
  EXPECT_EQ(FindInvalidUtf8("\xed\xa0\x80"), 0u);          // surrogate
  EXPECT_EQ(FindInvalidUtf8("\xf0\x8f\xbf\xbf"), 0u);      // overlong
  EXPECT_EQ(FindInvalidUtf8("\xf4\x90\x80\x80"), 0u);      // beyond U+10FFFF
  EXPECT_EQ(FindInvalidUtf8("abc\xf0\x9f\x98"), 3u);       // cut off
  EXPECT_EQ(FindInvalidUtf8("\xf8\x88\x80\x80\x80"), 0u);  // five bytes
}

TEST(Utf8Test, LengthIsTheCharactersOrZero) {
  const std::string text = "aé€\xf0\x9f\x98\x80";
  EXPECT_EQ(Utf8Length(text, 0), 1u);
  EXPECT_EQ(Utf8Length(text, 1), 2u);
  EXPECT_EQ(Utf8Length(text, 2), 0u);  // within é
  EXPECT_TRUE(IsUtf8Continuation(text[2]));
  EXPECT_EQ(Utf8Length(text, 3), 3u);
  EXPECT_EQ(Utf8Length(text, 6), 4u);
}

TEST(Base64Test, GivesTheVectorsOfItsStandard) {
  const struct {
    std::string bytes, text;
  } vectors[] = {{"", ""},
                 {"f", "Zg=="},
                 {"fo", "Zm8="},
                 {"foo", "Zm9v"},
                 {"foob", "Zm9vYg=="},
                 {"fooba", "Zm9vYmE="},
                 {"foobar", "Zm9vYmFy"},
                 {"\xFB\xFF\xBF", "+/+/"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(EncodeBase64(bytes), text);
    EXPECT_EQ(DecodeBase64(text), bytes) << text;
  }
  std::string all;
  for (int byte = 255; byte >= 0; --byte) all += static_cast<char>(byte);
  EXPECT_EQ(DecodeBase64(EncodeBase64(all)), all);
}

TEST(Base64Test, RefusesWhatItWouldNotWrite) {
  for (const char* text :
       {"Z", "Zg", "Zg=", "Zg===", "Z===", "====", "Zh==", "Zm9=", "Zm 9", "Zm9v\n", "Z=g=", "Zm-_"}) {
    EXPECT_FALSE(DecodeBase64(text).has_value()) << text;
  }
}

}  // namespace text_test
}  // namespace crosstalk
