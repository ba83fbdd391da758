// The values that parameters begin with, by their dotted path: drawn, or those of a file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/shape.h"
#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// Initial values as a pure function of (seed, dotted path), so that they depend neither on the order in which a model
// is put together nor on its other parts.

class StoredParameters;

// How a parameter starts.
struct InitialValues {
  enum class Distribution {
    kZeros,
    kOnes,
    kIdentity,  // ones on the diagonal of a square matrix
    kNormal,
    kTruncatedNormal,  // mean 0, cut at ±2 stddev
    kFilter,           // of filter[c_q, c_k, h]: one at the last query and the key `at`
    kNormalThenZeros,  // zeros in the second half of dimension `at`
  };
  Distribution distribution = Distribution::kZeros;
  double stddev = 0;
  int64_t at = 0;

  static constexpr InitialValues Zeros() { return {Distribution::kZeros, 0}; }
  static constexpr InitialValues Ones() { return {Distribution::kOnes, 0}; }
  static constexpr InitialValues Identity() { return {Distribution::kIdentity, 0}; }
  static constexpr InitialValues Normal(double stddev) { return {Distribution::kNormal, stddev}; }
  static constexpr InitialValues TruncatedNormal(double stddev) { return {Distribution::kTruncatedNormal, stddev}; }
  static constexpr InitialValues Filter(int64_t at) { return {Distribution::kFilter, 0, at}; }
  static constexpr InitialValues NormalThenZeros(double stddev, int dim) {
    return {Distribution::kNormalThenZeros, stddev, dim};
  }
};

// Seed, type and path of what is being built. Child (nn/module.h) hands it down a tree of modules; each level appends
// its name. Copies, and what At gives, remember together which paths have a module, so that none gets two: two layers
// of one path would start with the same values. Not to be used by several threads at once.
class Initializer {
 public:
  explicit Initializer(uint64_t seed, DType dtype = DType::kFloat32, std::string path = "");
  // Values that are stored under the parameters' paths; if none are, the initial ones of the seed.
  explicit Initializer(std::shared_ptr<StoredParameters> stored, DType dtype = DType::kFloat32, uint64_t seed = 0);

  // The same for a child: At("encoder").At("block_0").path() == "encoder.block_0".
  Initializer At(std::string_view name) const;

  uint64_t seed() const { return seed_; }
  DType dtype() const { return dtype_; }
  const std::string& path() const { return path_; }
  // The random stream of this path: (seed, StreamId(path)), step 0.
  RandomKey key() const { return {.seed = seed_, .stream = StreamId(path_), .step = 0}; }

  // The values of this path. Those that are stored must have the shape, as StoredParameters::Take says: else
  // Error(kData).
  Tensor Make(const Shape& shape, const InitialValues& values) const;

 private:
  friend class Module;
  struct ModulesByPath;

  uint64_t seed_;
  DType dtype_;
  std::string path_;
  std::shared_ptr<StoredParameters> stored_;  // null: initial values
  std::shared_ptr<ModulesByPath> modules_;
};

// Parameters that a file holds, for a model that is made of them: nothing is allocated beyond what is in the file, so a
// configuration that asks for more than its file has costs no memory.
//
//   const auto stored = std::make_shared<StoredParameters>(ReadSafetensors(path), "config.json");
//   TwoLayers model(64, 256, Initializer(stored));
//   stored->CheckAllTaken();

class StoredParameters {
 public:
  // `asked_by` says in errors what the parameters are asked for by: the configuration's file, say.
  StoredParameters(TensorFile file, std::string asked_by);

  virtual ~StoredParameters() = default;

  // Returns the tensor `name`, once. Error(kData) with both files' names, the tensor and its shapes if there is none
  // or it is of another shape or dtype. A file that has other names or layouts than the parameters overrides it, and
  // one that does not have all: undefined means initial values.
  virtual Tensor Take(const std::string& name, const Shape& shape, DType dtype);
  // Error(kData) that names a tensor which was not taken, except optional ones.
  void CheckAllTaken() const;

 protected:
  // Whether a tensor of the file may stay unused; a file with more than the model needs overrides it.
  virtual bool IsOptional(const std::string& /*name*/) const { return false; }
  // Whether there is one, of that shape, that nobody took yet.
  bool Holds(const std::string& name, const Shape& shape) const;
  // The tensors that were not taken.
  std::vector<std::string> Unused() const;

 private:
  std::string path_, asked_by_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk {

// The shared state of copies of an Initializer. Private to nn/init.cc and nn/module.cc.

class Module;

struct Initializer::ModulesByPath {
  std::map<std::string, const Module*> modules;
};

}  // namespace crosstalk
