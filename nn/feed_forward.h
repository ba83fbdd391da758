// The position-wise feed-forward layer of T5: y = dropout(act(x·wi))·wo, or gated, y = dropout(gelu(x·wi_0) ∘
// (x·wi_1))·wo.
#pragma once

#include <cstdint>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/enum_names.h"

namespace crosstalk {

enum class FeedForwardKind {
  kRelu,       // T5, as published in 2019
  kGatedGelu,  // T5 1.1: gelu (tanh form) of one half gates the other
};

template <>
struct EnumNames<FeedForwardKind> {
  static constexpr EnumName<FeedForwardKind> kTable[] = {{FeedForwardKind::kRelu, "relu"},
                                                         {FeedForwardKind::kGatedGelu, "gated-gelu"}};
};

struct FeedForwardConfig {
  int64_t d_model = 0;
  int64_t d_ff = 0;
  FeedForwardKind kind = FeedForwardKind::kRelu;
  double dropout_rate = 0;  // of the hidden layer, in training
};

// Parameters wi[d_model, d_ff] (gated: wi_0, wi_1) and wo[d_ff, d_model]; no biases. Truncated normal, std
// 1/sqrt(fan-in).
class FeedForward : public Module {
 public:
  FeedForward(const FeedForwardConfig& config, const Initializer& init);

  // x[…, d_model] → […, d_model]
  Variable Forward(const Variable& x, const ForwardContext& context) const;

 private:
  FeedForwardConfig config_;
  Variable wi_, wi_gate_, wo_;
};

}  // namespace crosstalk
