// Module: learned tensors with dotted names, and what a forward pass needs to know beside its inputs.
//
//   class TwoLayers : public Module {
//    public:
//     TwoLayers(int64_t d, int64_t d_ff, const Initializer& init)
//         : Module(init),
//           scale_(AddParameter("scale", {d}, InitialValues::Ones())),
//           wi_(this, "wi", d, d_ff, LinearBias::kYes),  // makes a Linear(d, d_ff, …) named "wi", and registers it
//           wo_(this, "wo", d_ff, d, LinearBias::kYes) {}
//     Variable Forward(const Variable& x) const { return wo_->Forward(Relu(wi_->Forward(x * scale_))); }
//    private:
//     Variable scale_;
//     Child<Linear> wi_, wo_;
//   };
//
//   TwoLayers model(64, 256, Initializer(seed));
//   AdamW optimizer(model.Parameters());  // scale, wi.weight, wi.bias, wo.weight, wo.bias
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/shape.h"
#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

struct NamedParameter {
  std::string name;       // dotted path: "encoder.block_0.self_attention.P_q"
  Variable value;         // a leaf; requires a gradient if it is trainable
  Shape matrix_shape;     // [rows, cols]: the matrix that factored optimizers see; rank 0: they do not factor it
  bool trainable = true;  // false: optimizers leave it as it is
};

template <typename T>
class Child;

// A tree of modules. A module that belongs to another is a Child<T> of it, which makes it, names it and registers it in
// one step. Neither copyable nor movable; a Child is both, so that children stand in a std::vector<Child<T>>.
class Module {
 public:
  virtual ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // All parameters, own and children's, in the order of registration; those of a module that is shared once, under the
  // first of its names. Values are shared with the module, not copied. A usage error if a module was made under this
  // one's path that no Child registers: its parameters would be missing.
  std::vector<NamedParameter> Parameters() const;
  int64_t NumParameters() const;  // scalars in Parameters()
  // This module and all below it, in the order of registration; one that is shared once.
  std::vector<const Module*> Modules() const;

  // Makes every gradient undefined.
  void ZeroGrad() const;

  // Sets `trainable` of the parameters whose dotted path is `path` or begins with `path` and a dot; "" is all of them,
  // and * in it matches any characters, dots too. No gradient of one that is not trainable is computed. A usage
  // error with the nearest name if there is none.
  enum class Trainable { kNo, kYes };
  void SetTrainable(std::string_view path, Trainable trainable);

  // Rounds what AddWeight made to bfloat16 (autograd/tensor_math.h) and makes nothing trainable, for a model that is
  // used and no longer trained: the weights take half the memory, and in bfloat16 (runtime/dtype.h), where products
  // round them in any case, results keep their bits.
  virtual void RoundWeights();

  // Where the module stands in the model that it was made in: "encoder.block_0".
  const std::string& path() const { return init_.path(); }
  DType dtype() const { return init_.dtype(); }

 protected:
  // A usage error if `init` has made a module of the same path that still lives: the two would start alike.
  explicit Module(const Initializer& init);

  // A leaf with initial values of its own path, registered. Without a matrix_shape a tensor of rank 2 is its own
  // matrix, and any other has none; a given one must have as many elements. Names are unique in a module and hold no
  // dots.
  Variable AddParameter(std::string_view name, const Shape& shape, const InitialValues& values,
                        const Shape& matrix_shape = {});
  // The same with values that the caller has.
  Variable AddParameter(std::string_view name, Tensor value, const Shape& matrix_shape = {});
  // The same for a weight, which matrix products alone read.
  Variable AddWeight(std::string_view name, const Shape& shape, const InitialValues& values,
                     const Shape& matrix_shape = {});
  // The same for what optimizers see as a vector, of whatever rank it is: a bias per head, say.
  Variable AddVector(std::string_view name, const Shape& shape, const InitialValues& values);
  // Registers a module that is another's child too, under a name that it has here. It stays one set of parameters.
  template <typename T>
  void AddShared(std::string_view name, const Child<T>& child);

 private:
  template <typename T>
  friend class Child;
  struct Entry {
    std::string name;
    std::shared_ptr<Module> module;  // or a parameter:
    Variable value;
    Shape matrix_shape;
    bool trainable = true;
    bool weight = false;
  };
  void AddModule(std::string_view name, std::shared_ptr<Module> module);
  void CheckName(std::string_view name) const;
  void CheckAllRegistered() const;
  void Collect(const std::string& prefix, std::vector<const Module*>& seen,
               std::vector<NamedParameter>* parameters) const;
  int64_t SetTrainableUnder(const std::string& prefix, std::string_view pattern, Trainable trainable);

  Initializer init_;
  bool registered_ = false;  // with a parent
  std::vector<Entry> entries_;
};

// A handle to a module that belongs to another. Copies refer to the same module: layers that hold copies share its
// parameters, which are registered once, by the handle that made it.
template <typename T>
class Child {
 public:
  Child() = default;  // none
  // Makes T(args…, init), with the parent's Initializer at `name`, and registers it with the parent.
  template <typename... Args>
  Child(Module* parent, std::string_view name, Args&&... args)
      : module_(std::make_shared<T>(std::forward<Args>(args)..., parent->init_.At(name))) {
    parent->AddModule(name, module_);
  }

  explicit operator bool() const { return module_ != nullptr; }
  T* operator->() { return module_.get(); }
  const T* operator->() const { return module_.get(); }
  T& operator*() { return *module_; }
  const T& operator*() const { return *module_; }

 private:
  friend class Module;
  std::shared_ptr<T> module_;
};

template <typename T>
void Module::AddShared(std::string_view name, const Child<T>& child) {
  AddModule(name, child.module_);
}

// Which forward pass this is. Random numbers depend on nothing else, so a step can be computed again bit for bit.
struct ForwardContext {
  enum class Phase { kTraining, kEvaluation };
  Phase phase = Phase::kEvaluation;
  uint64_t seed = 0;
  uint32_t step = 0;
  uint32_t micro_batch = 0;  // which part of the step's batch, when gradients are accumulated
  uint32_t use = 0;          // which use of a module that several layers share

  bool training() const { return phase == Phase::kTraining; }
  // The numbers of one dropout: `site` is the dotted path of the layer, and names it alone.
  RandomKey DropoutKey(std::string_view site) const;
};

}  // namespace crosstalk
#pragma GCC visibility pop
