#include "crosstalk/models/training/ranks/reducer.h"

#include <numeric>

#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"

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

bool AreBesideEachOther(int64_t parts, const std::vector<NamedParameter>& parameters) {
  const int64_t threads = NumThreads();
  if (threads == 1 || parts == 1) return false;
  const int64_t places = RoundUp(parts, threads);
  if (8 * (places - parts) > places) return false;
  int64_t bytes = 0;
  for (const NamedParameter& parameter : parameters) {
    if (parameter.trainable)
      bytes += BytesOf(parameter.value.value().num_elements(), ResultDType(parameter.value.dtype()));
  }
  return bytes <= kMostApartBytes / parts;
}

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
