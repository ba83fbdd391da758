#include "crosstalk/nn/init.h"

#include <utility>

#include "crosstalk/runtime/check.h"

namespace crosstalk {

Initializer::Initializer(uint64_t seed, DType dtype, std::string path)
    : seed_(seed), dtype_(dtype), path_(std::move(path)), modules_(std::make_shared<ModulesByPath>()) {}

Initializer::Initializer(std::shared_ptr<StoredParameters> stored, DType dtype, uint64_t seed)
    : seed_(seed), dtype_(dtype), stored_(std::move(stored)), modules_(std::make_shared<ModulesByPath>()) {}

Initializer Initializer::At(std::string_view name) const {
  Initializer child = *this;
  child.path_ = path_.empty() ? std::string(name) : StrCat(path_, ".", name);
  return child;
}

Tensor Initializer::Make(const Shape& shape, const InitialValues& values) const {
  if (stored_ != nullptr) {
    const Tensor taken = stored_->Take(path_, shape, dtype_);
    if (taken.defined()) return taken;
  }
  using enum InitialValues::Distribution;
  switch (values.distribution) {
    case kZeros:
      return Tensor::Zeros(shape, dtype_);
    case kOnes:
      return Tensor::Full(shape, 1.0, dtype_);
    case kIdentity: {
      CROSSTALK_CHECK(shape.rank() == 2 && shape[0] == shape[1], "initial values: ", shape,
                      " is not a square matrix, so it cannot start as the identity");
      Tensor identity = Tensor::Zeros(shape, dtype_);
      for (int64_t i = 0; i < shape[0]; ++i) identity.Select(0, i).Slice(0, i, i + 1).Fill(1);
      return identity;
    }
    case kNormal:
    case kNormalThenZeros: {
      Tensor tensor = Tensor::Empty(shape, dtype_);
      FillNormal(tensor, key(), 0.0, values.stddev);
      if (values.distribution == kNormal) return tensor;
      const int dim = static_cast<int>(values.at);
      tensor.Slice(dim, shape[dim] / 2, shape[dim]).Fill(0);
      return tensor;
    }
    case kFilter: {
      Tensor filter = Tensor::Zeros(shape, dtype_);
      filter.Select(0, shape[0] - 1).Select(0, values.at).Fill(1);
      return filter;
    }
    case kTruncatedNormal:
      break;
  }
  Tensor tensor = Tensor::Empty(shape, dtype_);
  FillTruncatedNormal(tensor, key(), values.stddev);
  return tensor;
}

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
