#include "crosstalk/models/training/reducer.h"

#include <numeric>

#include "crosstalk/autograd/tensor_math.h"

namespace crosstalk {

void AddTo(LossSum& left, LossSum right) {
  left.loss += right.loss;
  AddSums(left.metrics, right.metrics);
}

void AddTo(Tensor& left, Tensor right) {
  if (!left.defined()) {
    left = std::move(right);
  } else if (right.defined()) {
    math::AddInPlace(left, right);
  }
}

int MostGradientsKept(int64_t parts) { return std::bit_width(static_cast<uint64_t>(parts)) - 1; }

LocalReducer::LocalReducer(int64_t parts) : parts_(static_cast<size_t>(parts)), loss_(parts) {
  std::iota(parts_.begin(), parts_.end(), 0);
}

StepCounts LocalReducer::Begin(const StepCounts& here, size_t parameters) {
  gradients_.assign(parameters, PartTree<Tensor>(std::ssize(parts_)));
  loss_.Take();
  return here;
}

StepSum LocalReducer::Finish() {
  StepSum sum{.gradients = {}, .loss = std::move(loss_.Take()[0].sum)};
  for (PartTree<Tensor>& tree : gradients_) sum.gradients.push_back(std::move(tree.Take()[0].sum));
  return sum;
}

}  // namespace crosstalk
