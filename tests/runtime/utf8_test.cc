#include <gtest/gtest.h>

#include <string>

#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace utf8_test {

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

}  // namespace utf8_test
}  // namespace crosstalk
