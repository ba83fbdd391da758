// What a solution includes that uses the library: variables, whose gradients the tape computes, and their operations.
#pragma once

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/nn/optim/adam.h"
#include "crosstalk/nn/optim/optimizer.h"
#include "examples/course/checker/exercise.h"

namespace course {

using crosstalk::Backward;
using crosstalk::Einsum;
using crosstalk::Scale;
using crosstalk::Softmax;
using crosstalk::Tensor;
using crosstalk::Variable;

using Signature_3_5 = Variable(const Variable& X, const Variable& M, const Variable& P_q, const Variable& P_k,
                               const Variable& P_v, const Variable& P_o, double scale);

// logits[rows, letters] of the model for a batch, on the tape.
struct TrainingStep {
  std::function<Variable()> logits;  // computes them
  Tensor targets;                    // int32[rows]
  std::vector<crosstalk::NamedParameter> parameters;
  crosstalk::AdamW& optimizer;         // of them
  double learning_rate = 0, clip = 0;  // the largest norm of all gradients together
};
using Signature_7_3 = double(TrainingStep& step);

}  // namespace course
