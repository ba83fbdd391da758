#include "crosstalk/runtime/enum_names.h"

#include <gtest/gtest.h>

namespace crosstalk {
namespace {
enum class Fruit { kApple, kPear };
}  // namespace

template <>
struct EnumNames<Fruit> {
  static constexpr EnumName<Fruit> kTable[] = {{Fruit::kApple, "apple"}, {Fruit::kPear, "pear"}};
};

namespace {

TEST(EnumNamesTest, NamesAndValuesInvertEachOther) {
  for (const std::string& name : NamesOf<Fruit>()) EXPECT_EQ(Name(ParseName<Fruit>("fruit", name)), name);
  EXPECT_STREQ(Name(Fruit::kPear), "pear");
}

TEST(EnumNamesTest, AnUnknownNameIsAnErrorOfTheFieldWithTheNearest) {
  try {
    ParseName<Fruit>("fruit", "appel", ErrorKind::kData);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_EQ(error.field(), "fruit");
    EXPECT_STREQ(error.what(), "fruit: \"appel\" is none of apple, pear; did you mean \"apple\"?");
  }
}

}  // namespace
}  // namespace crosstalk
