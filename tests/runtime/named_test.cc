#include <gtest/gtest.h>

#include "crosstalk/runtime/enum_names.h"

namespace crosstalk {
namespace named_test {

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
  try {
    FindNamed("fruit", "appel", kFruits);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(error.field(), "fruit");
    EXPECT_STREQ(error.what(), "fruit: \"appel\" is none of apple, peach; did you mean \"apple\"?");
  }
}

}  // namespace named_test
}  // namespace crosstalk
