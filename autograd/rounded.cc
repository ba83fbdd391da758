#include "crosstalk/autograd/rounded.h"

#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {
namespace {

constexpr int64_t kTile = 1 << 13;  // elements of a task

// A contiguous copy of x by convert(count, from, to).
template <typename To, typename From>
Tensor Converted(const Tensor& x, void (*convert)(int64_t, const From*, To*)) {
  const Tensor from = math::Contiguous(x);
  const Tensor to = Tensor::Empty(x.shape(), DTypeOf<To>);
  Launch([&] {
    ParallelForRange(from.num_elements(), kTile, [&](int64_t begin, int64_t end) {
      convert(end - begin, from.data<From>() + begin, to.data<To>() + begin);
    });
  });
  return to;
}

bool RoundsProducts() { return CurrentContext().precision == Precision::kBFloat16; }

}  // namespace

Tensor Rounded(const Tensor& x) { return Converted(x, kernels::RoundToBFloat16); }

Tensor Widened(const Tensor& x) { return x.dtype() == DType::kBFloat16 ? Converted(x, kernels::WidenBFloat16) : x; }

Tensor KeptForBackward(const Tensor& x) {
  return RoundsProducts() && CurrentContext().recording && x.dtype() == DType::kFloat32 ? Rounded(x) : x;
}

Tensor ReadByProducts(const Tensor& x) { return RoundsProducts() ? x : Widened(x); }

}  // namespace crosstalk
