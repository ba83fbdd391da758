#include "crosstalk/models/training/state_dict.h"

#include <set>
#include <string>

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
  const std::vector<NamedParameter> parameters = module.Parameters();
  std::set<std::string> known;
  for (const NamedParameter& parameter : parameters) {
    known.insert(parameter.name);
    const Tensor& tensor = file.At(parameter.name);
    const Tensor& value = parameter.value.value();
    if (tensor.shape() != value.shape() || tensor.dtype() != value.dtype()) {
      Fail(ErrorKind::kData, file.path, ": tensor '", parameter.name, "' is ", tensor.dtype(), tensor.shape(),
           ", but the model's is ", value.dtype(), value.shape());
    }
  }
  for (const NamedTensor& tensor : file.tensors) {
    if (!known.contains(tensor.name)) {
      Fail(ErrorKind::kData, file.path, ": the model has no parameter '", tensor.name, "'");
    }
  }
  for (const NamedParameter& parameter : parameters) parameter.value.value().CopyFrom(file.At(parameter.name));
}

}  // namespace crosstalk
