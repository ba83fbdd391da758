#include "crosstalk/nn/stored_parameters.h"

#include <utility>

#include "crosstalk/runtime/check.h"

namespace crosstalk {

StoredParameters::StoredParameters(TensorFile file, std::string asked_by)
    : path_(std::move(file.path)), asked_by_(std::move(asked_by)) {
  for (NamedTensor& entry : file.tensors) tensors_.emplace(std::move(entry.name), std::move(entry.tensor));
}

Tensor StoredParameters::Take(const std::string& name, const Shape& shape, DType dtype) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    Fail(ErrorKind::kData, path_, ": has no tensor '", name, "' (", dtype, shape, "), which ", asked_by_, " asks for");
  }
  if (found->second.shape() != shape || found->second.dtype() != dtype) {
    Fail(ErrorKind::kData, path_, ": tensor '", name, "' is ", found->second.dtype(), found->second.shape(), ", but ",
         asked_by_, " asks for ", dtype, shape);
  }
  return tensors_.extract(found).mapped();
}

bool StoredParameters::Holds(const std::string& name, const Shape& shape) const {
  const auto found = tensors_.find(name);
  return found != tensors_.end() && found->second.shape() == shape;
}

std::vector<std::string> StoredParameters::Unused() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

void StoredParameters::CheckAllTaken() const {
  for (const auto& [name, tensor] : tensors_) {
    if (IsOptional(name)) continue;
    Fail(ErrorKind::kData, path_, ": tensor '", name, "' is not a parameter of the model that ", asked_by_,
         " asks for");
  }
}

}  // namespace crosstalk
