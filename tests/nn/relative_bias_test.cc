#include "crosstalk/nn/relative_bias.h"

#include <gtest/gtest.h>

#include <vector>

#include "crosstalk/autograd/ops_reduce.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

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

TEST(RelativeBucketTest, RefusesBucketsThatDoNotSplit) {
  EXPECT_THROW(RelativeBucket(1, RelativeDirection::kBidirectional, 30), Error);
  EXPECT_THROW(RelativeBucket(1, RelativeDirection::kUnidirectional, 7), Error);
  EXPECT_THROW(RelativeBucket(1, RelativeDirection::kUnidirectional, 0), Error);
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

}  // namespace
}  // namespace crosstalk
