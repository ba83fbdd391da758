#include "crosstalk/nn/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "crosstalk/nn/optim/parameter_loop.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {

Optimizer::Optimizer(std::vector<NamedParameter> parameters) : parameters_(std::move(parameters)) {
  std::erase_if(parameters_, [](const NamedParameter& parameter) { return !parameter.trainable; });
  slots_.resize(parameters_.size());
  CROSSTALK_CHECK(!parameters_.empty(),
                  "optimizer: there are no parameters to train; a module that no Child registers has none");
  std::map<std::string, int> seen;
  for (const NamedParameter& parameter : parameters_) {
    CROSSTALK_CHECK(parameter.value.defined() && parameter.value.is_leaf(), "optimizer: parameter ", parameter.name,
                    " is not a leaf");
    CROSSTALK_CHECK(seen[parameter.name]++ == 0, "optimizer: parameter ", parameter.name, " is given twice");
  }
}

void Optimizer::AddSlot(size_t i, const std::string& name, const Shape& shape) {
  const NamedParameter& parameter = parameters_[i];
  slots_[i].push_back({StrCat(parameter.name, ".", name), Tensor::Zeros(shape, parameter.value.dtype())});
}

void Optimizer::Step(double learning_rate, double gradient_scale) {
  if (!std::isfinite(learning_rate) || !std::isfinite(gradient_scale)) {
    Fail(ErrorKind::kNumerical, "optimizer: step ", step_, " was not made: its learning rate is ", learning_rate,
         " and its gradient scale ", gradient_scale, "; both must be finite");
  }
  std::vector<int64_t> elements;  // of those that hold a gradient
  for (const NamedParameter& parameter : parameters_) {
    elements.push_back(parameter.value.grad().defined() ? parameter.value.value().num_elements() : 0);
  }
  ForEachParameter(
      elements, [&](size_t i) { Update(i, parameters_[i].value.grad().Contiguous(), learning_rate, gradient_scale); });
  ++step_;
}

std::vector<NamedTensor> Optimizer::State() const {
  std::vector<NamedTensor> state = {{"step", Tensor::FromValues<int64_t>({1}, std::vector<int64_t>{step_})}};
  if (carried_steps_ > 0) {
    state.push_back({"carried_steps", Tensor::FromValues<int64_t>({1}, std::vector<int64_t>{carried_steps_})});
  }
  for (const auto& slots : slots_) state.insert(state.end(), slots.begin(), slots.end());
  return state;
}

void Optimizer::LoadState(const std::vector<NamedTensor>& state) {
  std::unordered_map<std::string, const Tensor*> given;
  for (const NamedTensor& entry : state) {
    if (!given.emplace(entry.name, &entry.tensor).second) {
      Fail(ErrorKind::kData, "optimizer state: tensor ", entry.name, " is there twice");
    }
  }
  // Each expected tensor is taken out of `given`; whatever stays is unknown.
  const auto take = [&](const std::string& name, const Shape& shape, DType dtype) {
    const auto found = given.find(name);
    if (found == given.end()) {
      Fail(ErrorKind::kData, "optimizer state: tensor ", name, " is missing; was it saved by another optimizer, or ",
           "for another model?");
    }
    const Tensor* tensor = found->second;
    if (tensor->shape() != shape || tensor->dtype() != dtype) {
      Fail(ErrorKind::kData, "optimizer state: tensor ", name, " is ", tensor->dtype(), tensor->shape(), ", but ",
           dtype, shape, " was expected");
    }
    given.erase(found);
    return tensor;
  };
  const int64_t step = take("step", {1}, DType::kInt64)->data<int64_t>()[0];
  if (step < 0) Fail(ErrorKind::kData, "optimizer state: step is ", step, ", but must not be negative");
  const bool carried = given.contains("carried_steps");
  const int64_t carried_steps = carried ? take("carried_steps", {1}, DType::kInt64)->data<int64_t>()[0] : 0;
  if (carried_steps < 0) {
    Fail(ErrorKind::kData, "optimizer state: carried_steps is ", carried_steps, ", but must not be negative");
  }
  std::vector<std::pair<Tensor, const Tensor*>> copies;
  for (const auto& slots : slots_) {
    for (const NamedTensor& slot : slots) {
      copies.emplace_back(slot.tensor, take(slot.name, slot.tensor.shape(), slot.tensor.dtype()));
    }
  }
  if (!given.empty()) {
    const auto first =
        std::min_element(given.begin(), given.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    Fail(ErrorKind::kData, "optimizer state: tensor ", first->first, " belongs to no parameter of this model");
  }
  for (const auto& [slot, source] : copies) slot.CopyFrom(*source);
  step_ = step;
  carried_steps_ = carried_steps;
}

void Optimizer::CarryOver(std::vector<NamedTensor> state) {
  CROSSTALK_CHECK(step_ == 0, "optimizer: a state can be carried over before the first step, not after ", step_);
  std::set<std::string> known = {"step", "carried_steps"};
  for (const auto& slots : slots_) {
    for (const NamedTensor& slot : slots) known.insert(slot.name);
  }
  std::erase_if(state, [&](const NamedTensor& one) { return !known.contains(one.name); });
  LoadState(state);
  carried_steps_ += std::exchange(step_, 0);
}

int64_t Optimizer::StateBytes() const {
  int64_t bytes = 0;
  for (const auto& slots : slots_) {
    for (const NamedTensor& slot : slots) {
      bytes += BytesOf(slot.tensor.num_elements(), slot.tensor.dtype());
    }
  }
  return bytes;
}

}  // namespace crosstalk
