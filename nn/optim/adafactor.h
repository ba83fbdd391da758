// Adafactor as Mesh TensorFlow has it (Shazeer and Stern 2018; mesh_tensorflow/optimize.py): no momentum, second
// moments factored for large matrices, relative step sizes.
#pragma once

#include <vector>

#include "crosstalk/nn/optim/optimizer.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

struct AdafactorConfig {
  double decay_exponent = 0.8;  // decay of step t (the first is t = 0): 1 - (t + 1)^-0.8
  double epsilon1 = 1e-30;      // added to g²
  double epsilon2 = 1e-3;       // floor of RMS(parameter)
  double clip_threshold = 1.0;  // the update's RMS is at most this; 0: no clipping
  // A parameter's matrix_shape is factored if both of its sides are at least this. The shape is the module's choice,
  // not the tensor's rank: a projection [768, 24, 32] is the matrix [768, 768], and treated as such.
  int64_t min_factored_size = 128;
  enum class StepScale { kParameterRms, kAbsolute };
  StepScale step_scale = StepScale::kParameterRms;  // the step is learning_rate · max(RMS(parameter), epsilon2)
};

// Slots: "v" [shape] or, factored, "v_row" [rows] and "v_col" [cols].
class Adafactor : public Optimizer {
 public:
  explicit Adafactor(std::vector<NamedParameter> parameters, const AdafactorConfig& config = {});

  bool IsFactored(size_t i) const;  // parameter i of the constructor's list

 private:
  void Update(size_t i, const Tensor& gradient, double learning_rate, double gradient_scale) override;

  AdafactorConfig config_;
};

}  // namespace crosstalk
