// The two passes of the fused attention on what multiplies its operands, one function and one source file each, so that
// they compile beside each other: in float; in pairs of bfloat16 that are widened to float; and in dot products of such
// pairs, of which only targets that have the instruction know. All are run on the SIMD target in use.
#pragma once

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/attention/plan.h"

namespace crosstalk::kernels {

struct ForwardCall {
  const AttentionPlan& plan;
  const AttentionInputs& inputs;
  const Rows& O;
  const SoftmaxStats& stats;
  void* workspace;
  int threads;
};
void ForwardInFloat(const ForwardCall& call);
void ForwardWidened(const ForwardCall& call);
void ForwardInDotProducts(const ForwardCall& call);

struct BackwardArguments {
  const AttentionPlan& plan;
  const AttentionInputs& inputs;
  const ConstRows& O;
  const SoftmaxStats& stats;
  const ConstRows& dO;
  const AttentionGradients& gradients;
  void* workspace;
  int threads;
};
void BackwardInFloat(const BackwardArguments& arguments);
void BackwardWidened(const BackwardArguments& arguments);
void BackwardInDotProducts(const BackwardArguments& arguments);

}  // namespace crosstalk::kernels
