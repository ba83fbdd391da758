// Initial values as a pure function of (seed, dotted path), so that they depend neither on the order in which a model
// is put together nor on its other parts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk {

// Handed down a tree of modules as it is built; each level appends its name.
class Initializer {
 public:
  explicit Initializer(uint64_t seed, DType dtype = DType::kFloat32, std::string path = "")
      : seed_(seed), dtype_(dtype), path_(std::move(path)) {}

  // The same for a child: At("encoder").At("block_0").path() == "encoder.block_0".
  Initializer At(std::string_view name) const;

  uint64_t seed() const { return seed_; }
  DType dtype() const { return dtype_; }
  const std::string& path() const { return path_; }
  // What the numbers of this path are drawn from: (seed, StreamId(path)), step 0.
  RandomKey key() const { return {.seed = seed_, .stream = StreamId(path_), .step = 0}; }

  Tensor Zeros(const Shape& shape) const;
  Tensor Ones(const Shape& shape) const;
  Tensor Normal(const Shape& shape, double stddev) const;
  Tensor TruncatedNormal(const Shape& shape, double stddev) const;  // mean 0, cut at ±2 stddev

 private:
  uint64_t seed_;
  DType dtype_;
  std::string path_;
};

}  // namespace crosstalk
