#include "crosstalk/nn/attention/composed.h"

#include <gtest/gtest.h>

#include "tests/support/attention_cases.h"

namespace crosstalk {
namespace composed_test {

// Values and gradients of every case against the plain loops.
void CompareWithReference(DType dtype, double tolerance) {
  for (const AttentionCase& c : AttentionCases()) {
    SCOPED_TRACE(::testing::Message() << c);
    const AttentionInputs<double> in = MakeInputs(c);
    const std::vector<NamedArray> expected = ReferenceResults(c, in);
    const std::vector<NamedArray> actual = LayerResults(c, in, dtype);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(actual[i].name, expected[i].name);
      EXPECT_TRUE(CloseTo(actual[i].array, expected[i].array, tolerance)) << expected[i].name;
    }
  }
}

// The longest chains of sums have about 1000 terms: their error in double is below 1e-13 of the largest magnitude, in
// float below 1e-5.
TEST(AttentionComposedTest, EqualsThePlainLoopsInDouble) { CompareWithReference(DType::kFloat64, 1e-12); }
TEST(AttentionComposedTest, EqualsThePlainLoopsInFloat) { CompareWithReference(DType::kFloat32, 1e-5); }

}  // namespace composed_test
}  // namespace crosstalk
