#include "crosstalk/nn/relative_bias.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

constexpr double kMaxDistance = 128;

// The bucket of a distance ≥ 0 among the `buckets` of one direction: e = buckets/2 exact ones, then, for k ≥ 0,
// bucket e + k from the first distance with log(distance/e) / log(128/e) · e ≥ k, which is
//   e · log2(distance) ≥ k · 7 + (e - k) · log2(e).
// Both sides are exact where they are equal and e is a power of two; the tolerance covers that case whatever log2
// rounds to, and is far below the gap to any distance that is not equal.
int64_t DistanceBucket(int64_t distance, int64_t buckets) {
  const int64_t exact = buckets / 2;
  if (distance < exact) return distance;
  constexpr double kTolerance = 1e-9;
  const double log_exact = std::log2(static_cast<double>(exact));
  const double log_range = std::log2(kMaxDistance) - log_exact;
  const double position =
      static_cast<double>(buckets - exact) * (std::log2(static_cast<double>(distance)) - log_exact) / log_range;
  return std::min(exact + static_cast<int64_t>(std::floor(position + kTolerance)), buckets - 1);
}

void CheckBuckets(RelativeDirection direction, int64_t buckets) {
  const int64_t multiple = direction == RelativeDirection::kBidirectional ? 4 : 2;
  CROSSTALK_CHECK(buckets >= multiple && buckets % multiple == 0 && buckets / multiple < 64,
                  "relative bias: buckets = ", buckets, " must be a multiple of ", multiple, " below ", 64 * multiple);
}

}  // namespace

int64_t RelativeBucket(int64_t relative_position, RelativeDirection direction, int64_t buckets) {
  CheckBuckets(direction, buckets);
  if (direction == RelativeDirection::kUnidirectional) {
    return DistanceBucket(std::max<int64_t>(-relative_position, 0), buckets);
  }
  const int64_t half = buckets / 2;
  return (relative_position > 0 ? half : 0) + DistanceBucket(std::abs(relative_position), half);
}

RelativeBias::RelativeBias(int64_t heads, int64_t buckets, RelativeDirection direction, double stddev,
                           const Initializer& init)
    : Module(init), buckets_(buckets), direction_(direction) {
  CROSSTALK_CHECK(heads >= 1, "relative bias: h = ", heads, " must be at least 1");
  CheckBuckets(direction, buckets);
  table_ = AddParameter("table", {heads, buckets}, InitialValues::Normal(stddev));
}

LogitsBias RelativeBias::Forward(int64_t n, int64_t m, int64_t first_query) const {
  CROSSTALK_CHECK(n >= 0 && m >= 0 && first_query >= 0, "relative bias: n = ", n, ", m = ", m,
                  " and first_query = ", first_query, " must not be negative");
  // The relative positions are -(first_query + n - 1) … m - 1 - first_query.
  Tensor distance_bucket = Tensor::Empty({std::max<int64_t>(n + m - 1, 0)}, DType::kInt32);
  for (int64_t i = 0; i < n + m - 1; ++i) {
    distance_bucket.data<int32_t>()[i] =
        static_cast<int32_t>(RelativeBucket(i - (first_query + n - 1), direction_, buckets_));
  }
  return {table_, distance_bucket};
}

}  // namespace crosstalk
