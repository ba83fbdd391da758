// The two passes of the fused attention on what multiplies its operands, one function and one source file each, so that
// they compile beside each other: in float; in pairs of bfloat16 that are widened to float; and in dot products of such
// pairs, of which only targets that have the instruction know. All are run on the SIMD target in use.
#pragma once

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/attention/plan.h"

namespace crosstalk::kernels {

struct ForwardPass {
  const AttentionPlan& plan;
  const AttentionCall& call;
  const Rows& O;
  const SoftmaxStats& stats;
  void* workspace;
  int threads;
};
void ForwardInFloat(const ForwardPass& pass);
void ForwardWidened(const ForwardPass& pass);
void ForwardInDotProducts(const ForwardPass& pass);

struct BackwardPass {
  const AttentionPlan& plan;
  const AttentionCall& call;
  const ConstRows& O;
  const SoftmaxStats& stats;
  const ConstRows& dO;
  const AttentionGradients& out;
  void* workspace;
  int threads;
};
void BackwardInFloat(const BackwardPass& pass);
void BackwardWidened(const BackwardPass& pass);
void BackwardInDotProducts(const BackwardPass& pass);

}  // namespace crosstalk::kernels
