// The position-wise feed-forward layer: y = dropout(act(x·wi))·wo, or gated, y = dropout(gelu(x·wi_0) ∘ (x·wi_1))·wo.
#pragma once

#include <cstdint>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/nn/linear.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

enum class FeedForwardKind {
  kRelu,       // T5, as published in 2019
  kGatedGelu,  // T5 1.1: gelu (tanh form) of one half gates the other
  kSwiGlu,     // Llama, PaLM: x·σ(x) of one half gates the other
  kGelu,       // BERT: x · Φ(x), by erf
  kGeluTanh,   // ALBERT, GPT-2: its tanh approximation
};
template <>
struct EnumNames<FeedForwardKind> {
  static constexpr EnumName<FeedForwardKind> kTable[] = {{FeedForwardKind::kRelu, "relu"},
                                                         {FeedForwardKind::kGatedGelu, "gated-gelu"},
                                                         {FeedForwardKind::kSwiGlu, "swiglu"},
                                                         {FeedForwardKind::kGelu, "gelu"},
                                                         {FeedForwardKind::kGeluTanh, "gelu-tanh"}};
};

constexpr bool IsGated(FeedForwardKind kind) {
  return kind == FeedForwardKind::kGatedGelu || kind == FeedForwardKind::kSwiGlu;
}

struct FeedForwardConfig {
  int64_t d_model = 0;
  int64_t d_ff = 0;
  FeedForwardKind kind = FeedForwardKind::kRelu;
  LinearBias bias = LinearBias::kNo;
  double dropout_rate = 0;  // of the hidden layer, in training
  double stddev = 0;        // of the initial weights; 0: 1/sqrt(fan-in)
};

// The activation of a kind that has no gate.
Variable Activate(FeedForwardKind kind, const Variable& x);

// Parameters wi[d_model, d_ff] (gated: wi_0, wi_1) and wo[d_ff, d_model], truncated normal; with biases wi_bias[d_ff]
// (wi_0_bias, wi_1_bias) and wo_bias[d_model], zeros, after them.
class FeedForward : public Module {
 public:
  FeedForward(const FeedForwardConfig& config, const Initializer& init);

  // x[…, d_model] → […, d_model]
  Variable Forward(const Variable& x, const ForwardContext& context) const;

 private:
  bool gated() const { return IsGated(config_.kind); }
  Variable Hidden(const Variable& x) const;  // […, d_ff], before dropout

  FeedForwardConfig config_;
  Variable wi_, wi_gate_, wo_, wi_bias_, wi_gate_bias_, wo_bias_;
};

}  // namespace crosstalk
