#include "crosstalk/nn/attention/bias.h"

#include <gtest/gtest.h>

#include <vector>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace bias_test {

// The first distance of every bucket, as the publishers' code has them in exact arithmetic.
const std::vector<int64_t> kBidirectional = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
const std::vector<int64_t> kUnidirectional = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                              16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};

int64_t RelativeBucket(int64_t relative_position, RelativeDirection direction, int64_t buckets = 32) {
  return RelativeBuckets({.buckets = buckets}, direction).Of(relative_position);
}

int64_t LastNotAbove(const std::vector<int64_t>& first, int64_t distance) {
  int64_t bucket = 0;
  while (bucket + 1 < static_cast<int64_t>(first.size()) && first[static_cast<size_t>(bucket) + 1] <= distance) {
    ++bucket;
  }
  return bucket;
}

TEST(RelativeBucketTest, BidirectionalThresholdsAreExactForEveryDistance) {
  for (int64_t distance = 0; distance <= 5000; ++distance) {
    const int64_t expected = LastNotAbove(kBidirectional, distance);
    EXPECT_EQ(RelativeBucket(-distance, RelativeDirection::kBidirectional), expected) << "key left by " << distance;
    const int64_t right = distance == 0 ? 0 : expected + 16;
    EXPECT_EQ(RelativeBucket(distance, RelativeDirection::kBidirectional), right) << "key right by " << distance;
  }
}

TEST(RelativeBucketTest, UnidirectionalThresholdsAreExactForEveryDistance) {
  for (int64_t distance = 0; distance <= 5000; ++distance) {
    const int64_t expected = LastNotAbove(kUnidirectional, distance);
    EXPECT_EQ(RelativeBucket(-distance, RelativeDirection::kUnidirectional), expected) << "key left by " << distance;
    EXPECT_EQ(RelativeBucket(distance, RelativeDirection::kUnidirectional), 0) << "key right by " << distance;
  }
}

// The first distance of each bucket of 32 up to 256, by the published formula in fractions of any size: 2^(3 + 5k/8)
// rounded up, and 2^(4 + k/4).
TEST(RelativeBucketTest, OtherDistancesHaveExactThresholdsToo) {
  const RelativeBiasConfig config = {.buckets = 32, .max_distance = 256};
  const RelativeBuckets unidirectional(config, RelativeDirection::kUnidirectional);
  const RelativeBuckets bidirectional(config, RelativeDirection::kBidirectional);
  const std::vector<int64_t> first = {16, 20, 23, 27, 32, 39, 46, 54, 64, 77, 91, 108, 128, 153, 182, 216};
  for (size_t k = 0; k < first.size(); ++k) {
    EXPECT_EQ(unidirectional.Of(-first[k]), 16 + static_cast<int64_t>(k));
    EXPECT_EQ(unidirectional.Of(1 - first[k]), 15 + static_cast<int64_t>(k));
  }
  const std::vector<int64_t> first_bidirectional = {8, 13, 20, 30, 46, 70, 108, 166};
  for (size_t k = 0; k < first_bidirectional.size(); ++k) {
    EXPECT_EQ(bidirectional.Of(-first_bidirectional[k]), 8 + static_cast<int64_t>(k));
    EXPECT_EQ(bidirectional.Of(first_bidirectional[k] - 1), 16 + 7 + static_cast<int64_t>(k));
  }
  EXPECT_EQ(bidirectional.Of(-1000000), 15);
}

TEST(RelativeBucketTest, ADirectionWhoseExactBucketsReachTheDistanceIsRefused) {
  const RelativeBiasConfig config = {.buckets = 128, .max_distance = 128};
  EXPECT_EQ(RelativeBuckets(config, RelativeDirection::kUnidirectional).Of(-65), 65);
  EXPECT_EQ(RelativeBuckets(config, RelativeDirection::kUnidirectional).Of(-500), 127);
  EXPECT_THROW(RelativeBuckets({.buckets = 256}, RelativeDirection::kUnidirectional), Error);
  EXPECT_THROW(RelativeBuckets({.buckets = 32, .max_distance = 16}, RelativeDirection::kUnidirectional), Error);
}

// The published formula for numbers that halves do not divide: ⌊B/2⌋ distances alone, where each direction of two has
// ⌊buckets/2⌋.
TEST(RelativeBucketTest, AnyNumberOfBucketsIsSplitAsPublished) {
  const std::vector<int64_t> seven = {0, 1, 2, 3, 7, 13, 25};  // up to 50
  const RelativeBuckets unidirectional({.buckets = 7, .max_distance = 50}, RelativeDirection::kUnidirectional);
  const RelativeBuckets bidirectional({.buckets = 15, .max_distance = 50}, RelativeDirection::kBidirectional);
  for (int64_t distance = 0; distance <= 60; ++distance) {
    const int64_t expected = LastNotAbove(seven, distance);
    EXPECT_EQ(unidirectional.Of(-distance), expected) << distance;
    EXPECT_EQ(bidirectional.Of(-distance), expected) << distance;
    EXPECT_EQ(bidirectional.Of(distance), distance == 0 ? 0 : expected + 7) << distance;
  }
}

TEST(RelativeBucketTest, RefusesFewerBucketsThanDirectionsNeed) {
  EXPECT_THROW(RelativeBucket(1, RelativeDirection::kBidirectional, 3), Error);
  EXPECT_THROW(RelativeBucket(1, RelativeDirection::kUnidirectional, 1), Error);
  EXPECT_THROW(RelativeBucket(1, RelativeDirection::kUnidirectional, 513), Error);
}

TEST(RelativeBiasTest, EntryIsTheTableAtTheBucketOfKeyMinusQuery) {
  const RelativeBias bias(3, RelativeBiasConfig(), RelativeDirection::kBidirectional, 1.0,
                          Initializer(5, DType::kFloat64, "bias"));
  const Tensor table = bias.Parameters().at(0).value.value();
  const Tensor values = DenseBias(bias.Forward(7, 40, 2), 7, 40).value();
  ASSERT_EQ(values.shape(), (Shape{3, 7, 40}));
  for (int64_t h = 0; h < 3; ++h) {
    for (int64_t i = 0; i < 7; ++i) {
      for (int64_t j = 0; j < 40; ++j) {
        const int64_t bucket = RelativeBucket(j - (i + 2), RelativeDirection::kBidirectional);
        EXPECT_EQ(values.At({h, i, j}), table.At({h, bucket})) << h << ' ' << i << ' ' << j;
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

TEST(RelativeBiasTest, ByDistanceItIsTheTableAndTheBucketOfEveryRelativePosition) {
  for (const auto direction : {RelativeDirection::kBidirectional, RelativeDirection::kUnidirectional}) {
    const RelativeBias bias(3, RelativeBiasConfig(), direction, 1.0, Initializer(5, DType::kFloat64, "bias"));
    const LogitsBias step = bias.Forward(1, 12, 11);  // the query at position 11, and all keys up to it
    EXPECT_TRUE(step.values.value().SharesStorageWith(bias.Parameters().at(0).value.value()));
    ASSERT_EQ(step.distance_bucket.shape(), (Shape{12}));
    for (int64_t j = 0; j < 12; ++j) {
      EXPECT_EQ(step.distance_bucket.At({j}), RelativeBucket(j - 11, direction)) << j;
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

}  // namespace bias_test
}  // namespace crosstalk
