// TensorFlow's checkpoints, written: the bytes that TensorFlow itself writes of the same tensors.
#pragma once

#include <span>
#include <string>

#include "crosstalk/models/interop/mesh/tensor_bundle.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk {

struct BundleTensor {
  std::string name;
  BundleType type;  // float32 or bfloat16 of float32, rounded to nearest, ties to even; int64 of int64
  Tensor tensor;
};

// PREFIX.index and one file of data; messages call the prefix `shown`. Error(kUsage) for a name that is there twice.
void WriteTensorBundle(const std::string& prefix, const std::string& shown, std::span<const BundleTensor> tensors);

// The bytes of a tensor in such a file.
std::string BundleBytes(const Tensor& tensor, BundleType type);

}  // namespace crosstalk
