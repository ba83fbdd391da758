// The term that is added to the logits before the softmax, in one of two forms: a value for each head, query and memory
// position, or a table read by distance, which is all that a relative position needs.
#pragma once

#include <cstdint>
#include <vector>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

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

// T5's simplified relative position bias (Raffel et al. 2019, 2.1; shared by all layers of a stack): a learned number
// for each head and each bucket of distances.

enum class RelativeDirection {
  kBidirectional,   // half of the buckets for keys at or before the query, half for keys after it; an odd one is unused
  kUnidirectional,  // keys after the query share bucket 0 with the query's own position (they are masked)
};

struct RelativeBiasConfig {
  int64_t buckets = 32;        // 4 (2 if unidirectional) … 512
  int64_t max_distance = 128;  // where the last bucket's range would end; it holds all beyond. More than half of a
                               // direction's buckets
  // Throws a usage error of the field relative_buckets or relative_attention_max_distance.
  void Validate(RelativeDirection direction) const;
};

// Buckets by relative position, j - i for a key at position j and a query at position i. Half of a direction's B
// buckets, e = ⌊B/2⌋, hold one distance each; bucket e + k begins at the first distance d with
//   floor(log(d / e) / log(max_distance / e) · (B - e)) ≥ k,   that is   d^(B-e) · e^k ≥ max_distance^k · e^(B-e),
// which is decided in integers: a logarithm in floating point puts some distances one bucket too low.
// With 32 buckets and 128 the first distances are: bidirectional 0 … 7, 8 12 16 23 32 46 64 91 (+16 where the key is to
// the right); unidirectional 0 … 15, 16 19 21 24 27 31 35 40 46 52 59 67 77 87 99 113.
class RelativeBuckets {
 public:
  RelativeBuckets(const RelativeBiasConfig& config, RelativeDirection direction);
  int64_t Of(int64_t relative_position) const;

 private:
  RelativeDirection direction_;
  std::vector<int64_t> first_;  // the first distance of each bucket of one direction
};

// Parameter table[h, buckets], normal with the given std (d_model^-0.5). Small as it is, it is never factored by the
// usual threshold of 128.
class RelativeBias : public Module {
 public:
  RelativeBias(int64_t heads, const RelativeBiasConfig& config, RelativeDirection direction, double stddev,
               const Initializer& init);

  // The bias of queries first_query … first_query + n - 1 and keys 0 … m - 1, by distance: the table itself, and where
  // to read it.
  LogitsBias Forward(int64_t n, int64_t m, int64_t first_query = 0) const;

 private:
  RelativeBuckets buckets_;
  Variable table_;
};

}  // namespace crosstalk
#pragma GCC visibility pop
