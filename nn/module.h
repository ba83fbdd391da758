// Module: learned tensors with dotted names, and what a forward pass needs to know beside its inputs.
//
//   class Linear : public Module {
//    public:
//     Linear(int64_t in, int64_t out, const Initializer& init)
//         : weight_(AddParameter("weight", init.At("weight").Normal({in, out}, 1 / std::sqrt(in)))) {}
//     Variable Forward(const Variable& x) const { return MatMul(x, weight_); }
//    private:
//     Variable weight_;
//   };
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/shape.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk {

struct NamedParameter {
  std::string name;       // dotted path: "encoder.block_0.self_attention.P_q"
  Variable value;         // a leaf that requires a gradient
  Shape matrix_shape;     // [rows, cols]: the matrix that factored optimizers see; rank 0: they do not factor it
  bool trainable = true;  // false: optimizers leave it as it is
};

// A tree of modules; a node owns its parameters and refers to its children, which are usually its members. Neither
// copyable nor movable, because parents hold addresses.
class Module {
 public:
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // All parameters, own and children's, in the order of registration. A parameter that several modules share is
  // registered by one of them, so each appears once. Values are shared with the module, not copied.
  std::vector<NamedParameter> Parameters() const;
  int64_t NumParameters() const;  // scalars in Parameters()

  // Makes every gradient undefined.
  void ZeroGrad() const;

  // Sets `trainable` of the parameters whose dotted path is `path` or begins with `path` and a dot; "" is all of them.
  // A usage error if there is none.
  enum class Trainable { kNo, kYes };
  void SetTrainable(std::string_view path, Trainable trainable);

 protected:
  Module() = default;

  // Makes `value` a leaf and registers it. Without a matrix_shape a tensor of rank 2 is its own matrix, and any other
  // has none; a given one must have as many elements as `value`. Names are unique in a module and hold no dots.
  Variable AddParameter(std::string_view name, Tensor value, const Shape& matrix_shape = {});
  // `module` must live as long as this one.
  void AddModule(std::string_view name, Module& module);

 private:
  struct Entry {
    std::string name;
    Module* module = nullptr;  // or a parameter:
    Variable value;
    Shape matrix_shape;
    bool trainable = true;
  };
  void CheckName(std::string_view name) const;
  void Collect(const std::string& prefix, std::vector<NamedParameter>& parameters) const;
  int64_t SetTrainableUnder(const std::string& prefix, std::string_view path, Trainable trainable);

  std::vector<Entry> entries_;
};

// Which forward pass this is. Random numbers depend on nothing else, so a step can be computed again bit for bit.
struct ForwardContext {
  enum class Phase { kTraining, kEvaluation };
  Phase phase = Phase::kEvaluation;
  uint64_t seed = 0;
  uint32_t step = 0;
  uint32_t micro_batch = 0;  // which part of the step's batch, when gradients are accumulated

  bool training() const { return phase == Phase::kTraining; }
  // The numbers of one dropout: `site` is the dotted path of the layer, and names it alone.
  RandomKey DropoutKey(std::string_view site) const;
};

}  // namespace crosstalk
