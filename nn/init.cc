#include "crosstalk/nn/init.h"

#include <utility>

#include "crosstalk/nn/modules_by_path.h"
#include "crosstalk/nn/stored_parameters.h"
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
    case kNormal: {
      Tensor tensor = Tensor::Empty(shape, dtype_);
      FillNormal(tensor, key(), 0.0, values.stddev);
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

}  // namespace crosstalk
