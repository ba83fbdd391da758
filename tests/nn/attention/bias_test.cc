#include "crosstalk/nn/attention/bias.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"

namespace crosstalk::bias_test {

int64_t RelativeBucket(int64_t relative_position, RelativeDirection direction, int64_t buckets = 32) {
  return RelativeBuckets({.buckets = buckets}, direction).Of(relative_position);
}

// The first distance of every bucket, as the publishers' code has them in exact arithmetic; beyond 128 by the published
// formula in fractions of any size, 2^(3 + 5k/8) rounded up and 2^(4 + k/4). Numbers that halves do not divide: ⌊B/2⌋
// distances alone, where each direction of two has ⌊buckets/2⌋. A direction whose exact buckets reach the distance has
// no others.
TEST(RelativeBucketTest, ThresholdsAreExactForEveryDistance) {
  const std::vector<int64_t> seven = {0, 1, 2, 3, 7, 13, 25};
  const struct {
    RelativeBiasConfig config;
    RelativeDirection direction;
    std::vector<int64_t> first;
  } kCases[] = {
      {{.buckets = 32}, RelativeDirection::kBidirectional, {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91}},
      {{.buckets = 32}, RelativeDirection::kUnidirectional, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                                             11, 12, 13, 14, 15, 16, 19, 21, 24, 27, 31,
                                                             35, 40, 46, 52, 59, 67, 77, 87, 99, 113}},
      {{.buckets = 32, .max_distance = 256},
       RelativeDirection::kBidirectional,
       {0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 20, 30, 46, 70, 108, 166}},
      {{.buckets = 32, .max_distance = 256},
       RelativeDirection::kUnidirectional,
       {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,  12,  13,  14,  15,
        16, 20, 23, 27, 32, 39, 46, 54, 64, 77, 91, 108, 128, 153, 182, 216}},
      {{.buckets = 7, .max_distance = 50}, RelativeDirection::kUnidirectional, seven},
      {{.buckets = 15, .max_distance = 50}, RelativeDirection::kBidirectional, seven}};
  for (const auto& c : kCases) {
    const RelativeBuckets buckets(c.config, c.direction);
    for (int64_t distance = 0; distance <= 5000; ++distance) {
      const int64_t expected = std::upper_bound(c.first.begin(), c.first.end(), distance) - c.first.begin() - 1;
      const bool both = c.direction == RelativeDirection::kBidirectional;
      EXPECT_EQ(buckets.Of(-distance), expected) << "key left by " << distance;
      EXPECT_EQ(buckets.Of(distance), both && distance > 0 ? expected + std::ssize(c.first) : 0) << distance;
    }
  }
  const RelativeBuckets wide({.buckets = 128, .max_distance = 128}, RelativeDirection::kUnidirectional);
  EXPECT_EQ(wide.Of(-65), 65);
  EXPECT_EQ(wide.Of(-500), 127);
}

TEST(RelativeBucketTest, RefusesFewerOrMoreBucketsThanDirectionsTake) {
  const std::pair<RelativeBiasConfig, RelativeDirection> kCases[] = {
      {{.buckets = 256}, RelativeDirection::kUnidirectional},
      {{.buckets = 32, .max_distance = 16}, RelativeDirection::kUnidirectional},
      {{.buckets = 3}, RelativeDirection::kBidirectional},
      {{.buckets = 1}, RelativeDirection::kUnidirectional},
      {{.buckets = 513}, RelativeDirection::kUnidirectional}};
  for (const auto& [config, direction] : kCases) EXPECT_THROW(RelativeBuckets(config, direction), Error);
}

TEST(RelativeBiasTest, EntryIsTheTableAtTheBucketOfKeyMinusQuery) {
  for (const auto direction : {RelativeDirection::kBidirectional, RelativeDirection::kUnidirectional}) {
    const RelativeBias bias(3, RelativeBiasConfig(), direction, 1.0, Initializer(5, DType::kFloat64, "bias"));
    const Tensor table = bias.Parameters().at(0).value.value();
    for (const auto& [n, m, first] : {std::tuple(7, 40, 2), {1, 12, 11}}) {  // the second a step of decoding
      const LogitsBias of = bias.Forward(n, m, first);
      EXPECT_TRUE(of.values.value().SharesStorageWith(table));
      EXPECT_EQ(of.distance_bucket.shape(), (Shape{n + m - 1}));
      const Tensor values = DenseBias(of, n, m).value();
      ASSERT_EQ(values.shape(), (Shape{3, n, m}));
      for (int64_t h = 0; h < 3; ++h) {
        for (int64_t i = 0; i < n; ++i) {
          for (int64_t j = 0; j < m; ++j) {
            const int64_t bucket = RelativeBucket(j - (i + first), direction);
            EXPECT_EQ(values.At({h, i, j}), table.At({h, bucket})) << h << ' ' << i << ' ' << j;
          }
        }
      }
    }
  }
}

TEST(RelativeBiasTest, GradientCountsThePositionsOfEachBucket) {
  const RelativeBias bias(2, RelativeBiasConfig(), RelativeDirection::kUnidirectional, 1.0,
                          Initializer(5, DType::kFloat64, "bias"));
  const Variable table = bias.Parameters().at(0).value;
  Backward(Sum(DenseBias(bias.Forward(5, 5), 5, 5)));
  // Distance 0 and every key to the right share bucket 0: 5 + 10 pairs. Distance k has 5 - k.
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t bucket = 0; bucket < 32; ++bucket) {
      const double expected = bucket == 0 ? 15 : bucket < 5 ? static_cast<double>(5 - bucket) : 0;
      EXPECT_EQ(table.grad().At({h, bucket}), expected) << bucket;
    }
  }
}

TEST(DenseBiasTest, RefusesDistancesOfAnotherSize) {
  const RelativeBias bias(3, RelativeBiasConfig(), RelativeDirection::kBidirectional, 1.0,
                          Initializer(5, DType::kFloat64, "bias"));
  EXPECT_THROW(DenseBias(bias.Forward(7, 40), 7, 39), Error);
  LogitsBias outside = bias.Forward(2, 3);
  outside.distance_bucket.Fill(32);
  EXPECT_THROW(DenseBias(outside, 2, 3), Error);
}

}  // namespace crosstalk::bias_test
