// Student's t against its quantiles to 16 digits, and intervals against a case by hand.
#include "tools/cli/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace crosstalk {
namespace statistics_test {

// The inverse of the regularised incomplete beta function, computed with 40 digits.
const struct {
  int64_t degrees;
  double level, t;
} kQuantiles[] = {
    {1, 0.9, 6.313751514675043},       {1, 0.95, 12.7062047361747},      {1, 0.99, 63.65674116287158},
    {1, 0.99375, 101.8558910654379},   {2, 0.9, 2.919985580353726},      {2, 0.95, 4.302652729749464},
    {2, 0.99, 9.924843200918293},      {2, 0.99375, 12.58974056119184},  {3, 0.95, 3.18244630528371},
    {3, 0.99, 5.840909309733357},      {3, 0.99375, 6.895230518289817},  {4, 0.95, 2.776445105197794},
    {4, 0.99375, 5.261057575065824},   {5, 0.95, 2.570581835636316},     {9, 0.95, 2.262157162798206},
    {30, 0.95, 2.042272456301238},     {30, 0.99375, 2.940915184987556}, {101, 0.95, 1.983731002955606},
    {101, 0.99375, 2.792881423678751}, {1000, 0.95, 1.962339080826408},  {1000, 0.99375, 2.740174913614631}};

TEST(StudentTest, QuantilesAreThoseOfTheTablesAndProbabilityTheirInverse) {
  for (const auto& one : kQuantiles) {
    EXPECT_NEAR(StudentCentralQuantile(one.level, one.degrees), one.t, 1e-10 * one.t)
        << one.degrees << " degrees, level " << one.level;
  }
  for (int64_t degrees = 1; degrees <= 40; ++degrees) {
    for (const double level : {0.0, 0.1, 0.5, 0.95, 0.999}) {
      EXPECT_NEAR(StudentCentralProbability(StudentCentralQuantile(level, degrees), degrees), level, 1e-14) << degrees;
    }
  }
}

// Differences 1, 2, 6: mean 3, deviation √7, of three values t(0.95, 2) = 4.3026527.
TEST(IntervalTest, OfTwoSettingsIsStudentsIntervalOfTheirDifferences) {
  const BySeed a = {{1, 2.0}, {2, 5.0}, {3, 13.0}}, b = {{1, 1.0}, {2, 3.0}, {3, 7.0}};
  const Scatter scatter = ScatterOf({a, b});
  EXPECT_EQ(scatter.degrees, 2);
  EXPECT_NEAR(scatter.variance, 7.0 / 2, 1e-12);
  const std::optional<Interval> interval = IntervalOfDifferences(PairedDifferences(a, b), scatter, 0.95);
  const double half = 4.302652729749464 * std::sqrt(7.0 / 3);
  ASSERT_TRUE(interval);
  EXPECT_NEAR(interval->low, 3 - half, 1e-12);
  EXPECT_NEAR(interval->high, 3 + half, 1e-12);
}

TEST(PairedDifferencesTest, OnlySeedsThatBothHaveCount) {
  const BySeed a = {{1, 3.0}, {2, 5.0}, {7, 1.0}}, b = {{1, 1.0}, {2, 1.5}, {8, 1.0}};
  EXPECT_EQ(PairedDifferences(a, b), (BySeed{{1, 2.0}, {2, 3.5}}));
  // A seed of one setting alone says nothing of the scatter: differences 2 and 3.5, half their variance.
  const Scatter scatter = ScatterOf({a, b});
  EXPECT_EQ(scatter.degrees, 1);
  EXPECT_NEAR(scatter.variance, 0.5 * 1.125, 1e-12);
}

// Three settings and three seeds whose parts add up exactly, except ±e in four of the nine values: residuals that the
// fit leaves as they are.
TEST(ScatterTest, IsWhatSettingsAndSeedsDoNotExplain) {
  const double e = 0.25;
  std::vector<BySeed> settings = {
      {{1, 1 + e}, {2, 11 - e}, {3, 101}}, {{1, 2 - e}, {2, 12 + e}, {3, 102}}, {{1, 5}, {2, 15}, {3, 105}}};
  Scatter scatter = ScatterOf(settings);
  EXPECT_EQ(scatter.degrees, 4);
  EXPECT_NEAR(scatter.variance, 4 * e * e / 4, 1e-12);
  settings[2].erase(2);  // seven degrees used of eight values; what is left has the same residuals
  scatter = ScatterOf(settings);
  EXPECT_EQ(scatter.degrees, 3);
  EXPECT_NEAR(scatter.variance, 4 * e * e / 3, 1e-10);
  settings.push_back({{1, 5.0}, {2, std::nan("")}});  // one more setting with one finite value
  EXPECT_EQ(ScatterOf(settings).degrees, 3);
}

// Two pairs of settings without a common seed: each has its own seeds' parts, and one degree.
TEST(ScatterTest, PartsThatShareNoSeedAreFittedApart) {
  const Scatter scatter =
      ScatterOf({{{1, 1.0}, {2, 2.0}}, {{1, 1.0}, {2, 4.0}}, {{5, 1.0}, {6, 2.0}}, {{5, 7.0}, {6, 8.0}}});
  EXPECT_EQ(scatter.degrees, 2);
  EXPECT_NEAR(scatter.variance, 1.0 / 2, 1e-12);  // residuals ±1/2 of the first two settings
}

// 0.1 + 0.2 - 0.3 is 5.6e-17: differences that are the same except for their rounding.
TEST(PairedDifferencesTest, WithoutASpreadThereIsNoInterval) {
  const auto interval = [](const BySeed& a, const BySeed& b) {
    return IntervalOfDifferences(PairedDifferences(a, b), ScatterOf({a, b}), 0.95);
  };
  EXPECT_FALSE(interval({{1, 0.5}}, {{1, 0.0}}));
  EXPECT_FALSE(interval({{1, 0.1 + 0.2}, {2, 0.3}}, {{1, 0.0}, {2, 0.0}}));
  EXPECT_FALSE(interval({}, {}));
}

}  // namespace statistics_test
}  // namespace crosstalk
