#include "crosstalk/nn/attention/bias.h"

#include "crosstalk/autograd/ops_index.h"
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

}  // namespace crosstalk
