// AdamW (Loshchilov and Hutter 2019), with or without bias correction (BERT's form has none).
#pragma once

#include <string>
#include <vector>

#include "crosstalk/kernels/optimizer_options.h"
#include "crosstalk/nn/optim/optimizer.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// Vectors (norms, biases, also those of heads) do not decay, nor parameters whose path contains a text of `no_decay`.
// The optimizer sets what its options have of each step. Slots: "m" and "v", of the parameter's shape.
class AdamW : public Optimizer {
 public:
  explicit AdamW(std::vector<NamedParameter> parameters, const kernels::AdamWOptions& options = {},
                 std::vector<std::string> no_decay = {});

  bool Decays(size_t i) const;  // parameter i of the trainable ones in the constructor's list

 private:
  void Update(size_t i, const Tensor& gradient, double learning_rate, double gradient_scale) override;

  kernels::AdamWOptions options_;
  std::vector<std::string> no_decay_;
};

}  // namespace crosstalk
