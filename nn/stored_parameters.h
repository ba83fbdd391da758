// Parameters that a file holds, for a model that is made of them: nothing is allocated beyond what is in the file, so a
// configuration that asks for more than its file has costs no memory.
//
//   const auto stored = std::make_shared<StoredParameters>(ReadSafetensors(path), "config.json");
//   TwoLayers model(64, 256, Initializer(stored));
//   stored->CheckAllTaken();
#pragma once

#include <map>
#include <string>
#include <vector>

#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/shape.h"
#include "crosstalk/runtime/tensor.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

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
