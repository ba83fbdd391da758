#include <gtest/gtest.h>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "tests/support/grad_cases.h"

namespace crosstalk {
namespace ops_dropout_test {

const RandomKey kKey = {3, 5, 7};

TEST(DropoutTest, ElementIIsDecidedByTheKeyAndI) {
  const Tensor x = testing::RandomTensor("x", {5, 13}, 1, 2);
  const Tensor y = Dropout(Variable(x), 0.3, kKey).value();
  int64_t dropped = 0;
  for (int64_t i = 0; i < 65; ++i) {
    const bool drop = static_cast<double>(Uniform(kKey, static_cast<uint64_t>(i))) < 0.3;
    dropped += drop;
    EXPECT_NEAR(y.data<double>()[i], drop ? 0 : x.data<double>()[i] / 0.7, 1e-15 * 4) << i;
  }
  EXPECT_GT(dropped, 8);  // of 65, expected 19.5, standard deviation 3.7
  EXPECT_LT(dropped, 31);
}

TEST(DropoutTest, TheGradientDropsTheSameElements) {
  const Variable x(testing::RandomTensor("x", {5, 13}, 1, 2), Variable::RequiresGrad::kYes);
  const Variable y = Dropout(x, 0.5, kKey);
  Backward(y, Tensor::Full({5, 13}, 1, DType::kFloat64));
  for (int64_t i = 0; i < 65; ++i) EXPECT_EQ(x.grad().data<double>()[i] == 0, y.value().data<double>()[i] == 0) << i;
}

TEST(DropoutTest, RateZeroIsTheInputAndOneIsRefused) {
  const Variable x(testing::RandomTensor("x", {3}));
  EXPECT_TRUE(Dropout(x, 0, kKey).value().SharesStorageWith(x.value()));
  EXPECT_THROW(Dropout(x, 1, kKey), Error);
  EXPECT_THROW(Dropout(x, -0.1, kKey), Error);
}

}  // namespace ops_dropout_test
}  // namespace crosstalk
