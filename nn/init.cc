#include "crosstalk/nn/init.h"

#include "crosstalk/runtime/check.h"

namespace crosstalk {

Initializer Initializer::At(std::string_view name) const {
  return Initializer(seed_, dtype_, path_.empty() ? std::string(name) : StrCat(path_, ".", name));
}

Tensor Initializer::Zeros(const Shape& shape) const { return Tensor::Zeros(shape, dtype_); }

Tensor Initializer::Ones(const Shape& shape) const { return Tensor::Full(shape, 1.0, dtype_); }

Tensor Initializer::Normal(const Shape& shape, double stddev) const {
  Tensor tensor = Tensor::Empty(shape, dtype_);
  FillNormal(tensor, key(), 0.0, stddev);
  return tensor;
}

Tensor Initializer::TruncatedNormal(const Shape& shape, double stddev) const {
  Tensor tensor = Tensor::Empty(shape, dtype_);
  FillTruncatedNormal(tensor, key(), stddev);
  return tensor;
}

}  // namespace crosstalk
