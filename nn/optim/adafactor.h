// Adafactor as Mesh TensorFlow has it (Shazeer and Stern 2018; mesh_tensorflow/optimize.py): no momentum, second
// moments factored for large matrices, relative step sizes.
#pragma once

#include <vector>

#include "crosstalk/kernels/optimizer_step.h"
#include "crosstalk/nn/optim/optimizer.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// Slots: "v" [shape] or, where both sides of the parameter's matrix_shape are at least 128, factored, "v_row" [rows]
// and "v_col" [cols]. The shape is the module's choice, not the tensor's rank: a projection [768, 24, 32] is the matrix
// [768, 768], and treated as such. The optimizer sets what its options have of each step.
class Adafactor : public Optimizer {
 public:
  explicit Adafactor(std::vector<NamedParameter> parameters, const kernels::AdafactorOptions& options = {});

  bool IsFactored(size_t i) const;  // parameter i of the constructor's list

 private:
  void Update(size_t i, const Tensor& gradient, double learning_rate, double gradient_scale) override;

  kernels::AdafactorOptions options_;
};

}  // namespace crosstalk
#pragma GCC visibility pop
