#include "crosstalk/models/training/state_dict.h"

#include <cmath>
#include <utility>

#include "crosstalk/nn/init.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {

std::vector<NamedTensor> ParameterTensors(const Module& module) {
  std::vector<NamedTensor> tensors;
  for (const NamedParameter& parameter : module.Parameters()) {
    tensors.push_back({parameter.name, parameter.value.value()});
  }
  return tensors;
}

void LoadParameters(const TensorFile& file, Module& module) {
  StoredParameters stored(file, "the module");
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (const NamedParameter& parameter : module.Parameters()) {
    const Tensor& value = parameter.value.value();
    copies.emplace_back(value, stored.Take(parameter.name, value.shape(), value.dtype()));
  }
  stored.CheckAllTaken();
  for (const auto& [value, tensor] : copies) value.CopyFrom(tensor);
}

std::string NonFiniteValue(const Module& module) {
  for (const NamedTensor& parameter : ParameterTensors(module)) {
    const float* values = parameter.tensor.data<float>();
    for (int64_t i = 0; i < parameter.tensor.num_elements(); ++i) {
      if (!std::isfinite(values[i])) return StrCat(parameter.name, "[", i, "] is ", values[i]);
    }
  }
  return "";
}

}  // namespace crosstalk
