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
void ExpectUnknown(const F& find, ErrorKind kind, const char* message) {
  try {
    find();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    EXPECT_EQ(error.field(), "fruit");
    EXPECT_STREQ(error.what(), message);
  }
}

TEST(EnumNamesTest, AnUnknownNameIsAnErrorOfTheFieldWithTheNearest) {
  ExpectUnknown([] { ParseName<Fruit>("fruit", "appel", ErrorKind::kData); }, ErrorKind::kData,
                "fruit: \"appel\" is none of apple, pear; did you mean \"apple\"?");
}

}  // namespace

namespace enum_names_test {

struct Fruit {
  const char* name;
  int seeds;
};
const std::vector<Fruit> kFruits = {{"apple", 5}, {"peach", 1}};

TEST(NamedTest, AThingIsFoundByItsName) {
  EXPECT_EQ(NamesIn(kFruits), (std::vector<std::string>{"apple", "peach"}));
  EXPECT_EQ(&FindNamed("fruit", "peach", kFruits), &kFruits[1]);
}

TEST(NamedTest, AnUnknownNameIsAnErrorOfTheFieldWithTheNearest) {
  ExpectUnknown([] { FindNamed("fruit", "appel", kFruits); }, ErrorKind::kUsage,
                "fruit: \"appel\" is none of apple, peach; did you mean \"apple\"?");
}

}  // namespace enum_names_test
}  // namespace crosstalk
