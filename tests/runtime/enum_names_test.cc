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

// An error of its field, with the nearest name.
template <typename F>
void ExpectUnknown(const F& find, ErrorKind kind, const std::string& of) {
  try {
    find();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    EXPECT_EQ(error.field(), "fruit");
    EXPECT_EQ(error.what(), "fruit: \"appel\" is none of " + of + "; did you mean \"apple\"?");
  }
}

struct Seeded {
  const char* name;
  int seeds;
};

TEST(EnumNamesTest, AThingIsFoundByItsNameAndAnUnknownOneIsAnErrorOfItsField) {
  const std::vector<Seeded> fruits = {{"apple", 5}, {"peach", 1}};
  EXPECT_EQ(NamesIn(fruits), (std::vector<std::string>{"apple", "peach"}));
  EXPECT_EQ(&FindNamed("fruit", "peach", fruits), &fruits[1]);
  ExpectUnknown([&] { FindNamed("fruit", "appel", fruits); }, ErrorKind::kUsage, "apple, peach");
  ExpectUnknown([] { ParseName<Fruit>("fruit", "appel", ErrorKind::kData); }, ErrorKind::kData, "apple, pear");
}

}  // namespace
}  // namespace crosstalk
