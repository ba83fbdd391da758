#include "crosstalk/autograd/ops_dropout.h"

#include "crosstalk/autograd/kernel_op.h"
#include "crosstalk/kernels/dropout.h"

namespace crosstalk {

Variable Dropout(const Variable& x, double rate, const RandomKey& key) {
  CROSSTALK_CHECK(rate >= 0 && rate < 1, "dropout: the rate must be in [0, 1), but is ", rate);
  if (rate == 0) return x;
  const int64_t count = x.value().num_elements();
  const auto drop = [count, rate, key](const auto* from, auto* to) { kernels::Dropout(count, rate, key, from, to); };
  return KernelOp("dropout", x, x.shape(), {}, drop,
                  [drop](const auto*, const auto*, const auto* dy, auto* dx) { drop(dy, dx); });  // the same mask
}

}  // namespace crosstalk
