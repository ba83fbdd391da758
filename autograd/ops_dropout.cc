#include "crosstalk/autograd/ops_dropout.h"

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/kernels/dropout.h"
#include "crosstalk/runtime/shapes_only.h"

namespace crosstalk {
namespace {

Tensor Dropped(const Tensor& x, double rate, const RandomKey& key) {
  const Tensor values = math::Contiguous(x);
  Tensor y = Tensor::Empty(x.shape(), x.dtype());
  Launch("dropout", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::Dropout<T>(x.num_elements(), rate, key, values.data<T>(), y.data<T>());
  });
  return y;
}

}  // namespace

Variable Dropout(const Variable& x, double rate, const RandomKey& key) {
  CROSSTALK_CHECK(rate >= 0 && rate < 1, "dropout: the rate must be in [0, 1), but is ", rate);
  if (rate == 0) return x;
  return MakeOp("dropout", Dropped(x.value(), rate, key), {x}, [rate, key](const Tensor& dy, Gradients& gradients) {
    gradients.Add(0, Dropped(dy, rate, key));  // the same elements, the same factor
  });
}

}  // namespace crosstalk
