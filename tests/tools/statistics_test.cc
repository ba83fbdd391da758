// Student's t against its quantiles to 16 digits, and intervals against a case by hand.
#include "tools/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace crosstalk {
namespace statistics_test {

struct Quantile {
  int64_t degrees;
  double level, t;
};

// The inverse of the regularised incomplete beta function, computed with 40 digits.
const std::vector<Quantile> kQuantiles = {
    {1, 0.9, 6.313751514675043},       {1, 0.95, 12.7062047361747},      {1, 0.99, 63.65674116287158},
    {1, 0.99375, 101.8558910654379},   {2, 0.9, 2.919985580353726},      {2, 0.95, 4.302652729749464},
    {2, 0.99, 9.924843200918293},      {2, 0.99375, 12.58974056119184},  {3, 0.95, 3.18244630528371},
    {3, 0.99, 5.840909309733357},      {3, 0.99375, 6.895230518289817},  {4, 0.95, 2.776445105197794},
    {4, 0.99375, 5.261057575065824},   {5, 0.95, 2.570581835636316},     {9, 0.95, 2.262157162798206},
    {30, 0.95, 2.042272456301238},     {30, 0.99375, 2.940915184987556}, {101, 0.95, 1.983731002955606},
    {101, 0.99375, 2.792881423678751}, {1000, 0.95, 1.962339080826408},  {1000, 0.99375, 2.740174913614631}};

TEST(StudentTest, QuantilesAreThoseOfTheTables) {
  for (const Quantile& one : kQuantiles) {
    EXPECT_NEAR(StudentCentralQuantile(one.level, one.degrees), one.t, 1e-10 * one.t)
        << one.degrees << " degrees, level " << one.level;
  }
}

TEST(StudentTest, ProbabilityIsTheInverseOfTheQuantile) {
  for (int64_t degrees = 1; degrees <= 40; ++degrees) {
    for (const double level : {0.0, 0.1, 0.5, 0.95, 0.999}) {
      EXPECT_NEAR(StudentCentralProbability(StudentCentralQuantile(level, degrees), degrees), level, 1e-14) << degrees;
    }
  }
}

// 1, 2, 6: mean 3, deviation √7, of three values t(0.95, 2) = 4.3026527.
TEST(IntervalTest, IsTheMeanAndStudentsShareOfItsError) {
  const Interval interval = IntervalOfMean({1, 2, 6}, 0.95);
  const double half = 4.302652729749464 * std::sqrt(7.0 / 3);
  EXPECT_NEAR(interval.low, 3 - half, 1e-12);
  EXPECT_NEAR(interval.high, 3 + half, 1e-12);
}

TEST(PairedDifferencesTest, OnlySeedsThatBothHaveCount) {
  const BySeed differences = PairedDifferences({{1, 3.0}, {2, 5.0}, {7, 1.0}}, {{1, 1.0}, {2, 1.5}, {8, 1.0}});
  EXPECT_EQ(differences, (BySeed{{1, 2.0}, {2, 3.5}}));
  const std::optional<Interval> interval = IntervalOfDifferences(differences, 0.95);
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->low, IntervalOfMean({2.0, 3.5}, 0.95).low);
  EXPECT_EQ(interval->high, IntervalOfMean({2.0, 3.5}, 0.95).high);
}

// 0.1 + 0.2 - 0.3 is 5.6e-17: differences that are the same but for their rounding.
TEST(PairedDifferencesTest, WithoutASpreadThereIsNoInterval) {
  EXPECT_FALSE(IntervalOfDifferences({{1, 0.5}}, 0.95));
  EXPECT_FALSE(IntervalOfDifferences({{1, 0.1 + 0.2}, {2, 0.3}}, 0.95));
  EXPECT_FALSE(IntervalOfDifferences({}, 0.95));
}

TEST(IntervalTest, OfEqualValuesIsAPoint) {
  const Interval interval = IntervalOfMean({0.5, 0.5}, 0.95);
  EXPECT_EQ(interval.low, 0.5);
  EXPECT_EQ(interval.high, 0.5);
}

}  // namespace statistics_test
}  // namespace crosstalk
