#include "crosstalk/nn/attention/bias.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {

Variable DenseBias(const LogitsBias& bias, int64_t n, int64_t m) {
  if (!bias.by_distance()) return bias.values;
  const Tensor buckets = bias.distance_bucket.Contiguous();
  CROSSTALK_CHECK(buckets.rank() == 1 && buckets.size(0) == n + m - 1 && buckets.dtype() == DType::kInt32,
                  "attention bias: distance_bucket is ", buckets.dtype(), buckets.shape(), ", not int32[n + m - 1] = [",
                  n + m - 1, "]");
  Tensor ids = Tensor::Empty({n, m}, DType::kInt32);
  const int32_t* const bucket = buckets.data<int32_t>();
  int32_t* id = ids.data<int32_t>();
  Launch([&] {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < m; ++j) *id++ = bucket[j - i + n - 1];
    }
  });
  return Take(bias.values, 1, ids);
}

namespace {

// A natural number of any size, as far as powers need it.
class Natural {
 public:
  // factor · base^exponent
  Natural(const Natural& factor, int64_t base, int64_t exponent) : digits_(factor.digits_) {
    for (int64_t i = 0; i < exponent; ++i) MultiplyBy(static_cast<uint64_t>(base));
  }
  Natural() = default;  // 1

  bool operator>=(const Natural& other) const {
    if (digits_.size() != other.digits_.size()) return digits_.size() > other.digits_.size();
    return !std::lexicographical_compare(digits_.rbegin(), digits_.rend(), other.digits_.rbegin(),
                                         other.digits_.rend());
  }

 private:
  void MultiplyBy(uint64_t factor) {  // below 2^32
    uint64_t carry = 0;
    for (uint32_t& digit : digits_) {
      carry += digit * factor;
      digit = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    if (carry > 0) digits_.push_back(static_cast<uint32_t>(carry));
  }

  std::vector<uint32_t> digits_ = {1};  // base 2^32, the lowest first, the last not 0
};

int64_t BucketsOfADirection(const RelativeBiasConfig& config, RelativeDirection direction) {
  return direction == RelativeDirection::kBidirectional ? config.buckets / 2 : config.buckets;
}

std::vector<int64_t> FirstDistances(int64_t buckets, int64_t max_distance) {
  const int64_t exact = buckets / 2, rest = buckets - exact;
  std::vector<int64_t> first;
  for (int64_t distance = 0; distance < exact; ++distance) first.push_back(distance);
  for (int64_t k = 0; k < rest; ++k) {
    const Natural bound(Natural(Natural(), max_distance, k), exact, rest);  // max_distance^k · exact^rest
    const Natural exact_to_k(Natural(), exact, k);
    int64_t low = first.back() + (k == 0), high = max_distance;  // the first distance is in [low, high]
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (Natural(exact_to_k, middle, rest) >= bound) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    first.push_back(low);
  }
  return first;
}

}  // namespace

void RelativeBiasConfig::Validate(RelativeDirection direction) const {
  const int64_t fewest = direction == RelativeDirection::kBidirectional ? 4 : 2;
  CROSSTALK_CHECK_FIELD(buckets >= fewest && buckets <= 512, "relative_buckets", buckets, " is not between ", fewest,
                        " and 512");
  const int64_t exact = BucketsOfADirection(*this, direction) / 2;
  constexpr const char* kField = "relative_attention_max_distance";
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  CROSSTALK_CHECK_FIELD(max_distance > exact, kField, max_distance, " is not more than ", exact,
                        ", the distances that have a bucket each with ", FieldName{"relative_buckets"}, " = ", buckets);
  CROSSTALK_CHECK_FIELD(max_distance <= kMost, kField, max_distance, " is more than ", kMost);
}

RelativeBuckets::RelativeBuckets(const RelativeBiasConfig& config, RelativeDirection direction)
    : direction_(direction) {
  config.Validate(direction);
  first_ = FirstDistances(BucketsOfADirection(config, direction), config.max_distance);
}

int64_t RelativeBuckets::Of(int64_t relative_position) const {
  const bool bidirectional = direction_ == RelativeDirection::kBidirectional;
  const int64_t distance = bidirectional ? std::abs(relative_position) : std::max<int64_t>(-relative_position, 0);
  const int64_t bucket = std::upper_bound(first_.begin(), first_.end(), distance) - first_.begin() - 1;
  return bidirectional && relative_position > 0 ? static_cast<int64_t>(first_.size()) + bucket : bucket;
}

RelativeBias::RelativeBias(int64_t heads, const RelativeBiasConfig& config, RelativeDirection direction, double stddev,
                           const Initializer& init)
    : Module(init), buckets_(config, direction) {
  CROSSTALK_CHECK(heads >= 1, "relative bias: h = ", heads, " must be at least 1");
  table_ = AddParameter("table", {heads, config.buckets}, InitialValues::Normal(stddev));
}

LogitsBias RelativeBias::Forward(int64_t n, int64_t m, int64_t first_query) const {
  CROSSTALK_CHECK(n >= 0 && m >= 0 && first_query >= 0, "relative bias: n = ", n, ", m = ", m,
                  " and first_query = ", first_query, " must not be negative");
  // The relative positions are -(first_query + n - 1) … m - 1 - first_query.
  Tensor distance_bucket = Tensor::Empty({std::max<int64_t>(n + m - 1, 0)}, DType::kInt32);
  for (int64_t i = 0; i < n + m - 1; ++i) {
    distance_bucket.data<int32_t>()[i] = static_cast<int32_t>(buckets_.Of(i - (first_query + n - 1)));
  }
  return {table_, distance_bucket};
}

}  // namespace crosstalk
