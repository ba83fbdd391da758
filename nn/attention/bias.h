// The term that is added to the logits before the softmax, in one of two forms: a value for each head, query and memory
// position, or a table read by distance, which is all that a relative position needs.
#pragma once

#include <cstdint>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/runtime/tensor.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

struct LogitsBias {
  LogitsBias() = default;  // none
  // Dense. Implicit: a tensor is a bias.
  LogitsBias(const Variable& dense) : values(dense) {}
  // By distance.
  LogitsBias(const Variable& table, const Tensor& buckets) : values(table), distance_bucket(buckets) {}

  Variable values;  // dense: [h, n, m] (or [1, h, n, m]); by distance: the table [h, buckets]
  // int32[n + m - 1]; undefined: dense. L[h, i, j] gets table[h, distance_bucket[j - i + n - 1]].
  Tensor distance_bucket;

  bool defined() const { return values.defined(); }
  bool by_distance() const { return distance_bucket.defined(); }
};

// The same bias as [h, n, m] (or [1, h, n, m]): itself if it is dense. Usage error for one by distance that is not of n
// queries and m memory positions, or has a bucket that the table has not.
Variable DenseBias(const LogitsBias& bias, int64_t n, int64_t m);

}  // namespace crosstalk
