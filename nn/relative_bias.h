// T5's simplified relative position bias (Raffel et al. 2019, 2.1; shared by all layers of a stack): a learned number
// for each head and each bucket of distances.
#pragma once

#include <cstdint>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/attention/bias.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/nn/module.h"

namespace crosstalk {

enum class RelativeDirection {
  kBidirectional,   // half of the buckets for keys at or before the query, half for keys after it
  kUnidirectional,  // keys after the query share bucket 0 with the query's own position (they are masked)
};

// The bucket of a key at position j for a query at position i, relative_position = j - i. Half of a direction's
// buckets hold one distance each; the others grow as a logarithm up to distance 128, and the last holds all beyond.
// With 32 buckets the first distances are exact integers: bidirectional 0 … 7, 8 12 16 23 32 46 64 91 (+16 where the
// key is to the right); unidirectional 0 … 15, 16 19 21 24 27 31 35 40 46 52 59 67 77 87 99 113. A logarithm in
// floating point puts some of them one too low. `buckets` is a multiple of 4 (2 if unidirectional), at least that.
int64_t RelativeBucket(int64_t relative_position, RelativeDirection direction, int64_t buckets = 32);

// Parameter table[h, buckets], normal with the given std (d_model^-0.5). Small as it is, it is never factored by the
// usual threshold of 128.
class RelativeBias : public Module {
 public:
  RelativeBias(int64_t heads, int64_t buckets, RelativeDirection direction, double stddev, const Initializer& init);

  // The bias of queries first_query … first_query + n - 1 and keys 0 … m - 1, by distance: the table itself, and where
  // to read it.
  LogitsBias Forward(int64_t n, int64_t m, int64_t first_query = 0) const;

 private:
  int64_t buckets_;
  RelativeDirection direction_;
  Variable table_;
};

}  // namespace crosstalk
