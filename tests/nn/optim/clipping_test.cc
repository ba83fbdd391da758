#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "crosstalk/nn/optim/optimizer.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk {
namespace clipping_test {

NamedParameter WithGradient(const std::string& name, const std::vector<double>& gradient) {
  const Shape shape = {static_cast<int64_t>(gradient.size())};
  NamedParameter parameter = {
      name, Variable(Tensor::Zeros(shape, DType::kFloat64), Variable::RequiresGrad::kYes), {}, true};
  parameter.value.SetGrad(Tensor::FromValues(shape, gradient));
  return parameter;
}

TEST(GradientNormTest, IsTheRootOfTheSumOfSquaresOverAllTrainable) {
  std::vector<NamedParameter> parameters = {WithGradient("a", {1, 2}), WithGradient("b", {4, 10}),
                                            WithGradient("frozen", {100})};
  parameters[2].trainable = false;
  EXPECT_EQ(GradientNorm(parameters), 11.0);
  EXPECT_EQ(GradientNorm({}), 0.0);
}

TEST(GradientNormTest, BitsDoNotDependOnThreads) {
  NamedParameter parameter = {
      "w", Variable(Tensor::Zeros({100003}, DType::kFloat32), Variable::RequiresGrad::kYes), {}, true};
  Tensor gradient = Tensor::Empty({100003}, DType::kFloat32);
  FillNormal(gradient, {.seed = 1}, 0.0, 1.0);
  parameter.value.SetGrad(gradient);
  const ThreadsScope one_thread(1);
  const double one = GradientNorm({parameter});
  for (const int threads : {2, 3, 5, 8}) {
    const ThreadsScope scope(threads);
    EXPECT_EQ(GradientNorm({parameter}), one) << threads;
  }
}

TEST(ClipScaleTest, ScalesDownToTheLargestNormAndNeverUp) {
  EXPECT_EQ(ClipScale(4.0, 1.0), 0.25);
  EXPECT_EQ(ClipScale(0.5, 1.0), 1.0);
  EXPECT_EQ(ClipScale(0.0, 1.0), 1.0);
  EXPECT_EQ(ClipScale(4.0, 0.0), 1.0);
}

TEST(ClipScaleTest, DoesNotHideANormThatIsNotFinite) {
  EXPECT_TRUE(std::isnan(ClipScale(std::numeric_limits<double>::infinity(), 1.0)));
  EXPECT_TRUE(std::isnan(ClipScale(std::numeric_limits<double>::quiet_NaN(), 0.0)));
}

// A second moment of 1e40 is a float's infinity, for good.
TEST(ClipScaleTest, RefusesAGradientWhoseSquareNoMomentHolds) {
  EXPECT_TRUE(std::isnan(ClipScale(1e20, 0.0)));
  EXPECT_TRUE(std::isnan(ClipScale(1e25, 1e20)));
  EXPECT_EQ(ClipScale(1e18, 0.0), 1.0);
  EXPECT_DOUBLE_EQ(ClipScale(1e25, 1.0), 1e-25);
}

TEST(DescribeNonFiniteGradientTest, NamesTheFirst) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(DescribeNonFiniteGradient({WithGradient("a", {1, 2})}), "");
  EXPECT_EQ(DescribeNonFiniteGradient({WithGradient("a", {1, 2}), WithGradient("b", {1, 2, nan, nan})}), "b[2] = nan");
}

}  // namespace clipping_test
}  // namespace crosstalk
