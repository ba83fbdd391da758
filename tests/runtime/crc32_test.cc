#include "crosstalk/runtime/crc32.h"

#include <gtest/gtest.h>

namespace crosstalk {
namespace crc32_test {

// The check values that the definitions of both give.
TEST(Crc32Test, GivesThePublishedCheckValues) {
  EXPECT_EQ(Crc32Of("123456789"), 0xCBF43926u);
  EXPECT_EQ(Crc32cOf("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32Of(""), 0u);
  EXPECT_EQ(Crc32cOf(""), 0u);
}

}  // namespace crc32_test
}  // namespace crosstalk
