// The members of the attention family that came after the paper, one of each, as layers to test: all dimensions
// distinct and odd where they may be.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "crosstalk/nn/attention/config.h"

namespace crosstalk {

struct FamilyLayer {
  std::string name;
  AttentionConfig config;  // for self-attention
};
inline void PrintTo(const FamilyLayer& layer, std::ostream* out) { *out << layer.name; }

inline std::vector<FamilyLayer> FamilyLayers() {
  AttentionConfig base;
  base.d_X = base.d_M = 19;
  base.d_Y = 23;
  base.h_k = base.h = base.h_v = 6;
  base.d_k = 10;
  base.d_v = 13;
  base.scale = 0.375;
  std::vector<FamilyLayer> layers;
  const auto add = [&](const char* name, auto change) {
    AttentionConfig config = base;
    change(config);
    layers.push_back({name, config});
  };
  add("rotary_halves", [](AttentionConfig& c) { c.rotary = Rotary::kHalves; });
  add("rotary_interleaved", [](AttentionConfig& c) { c.rotary = Rotary::kInterleaved, c.query_key_norm = true; });
  add("grouped", [](AttentionConfig& c) { c.g_k = 2, c.g_v = 3; });
  add("one_key_head", [](AttentionConfig& c) { c.g_k = c.g_v = 1, c.mixing.P_l = true; });
  add("talking_grouped",
      [](AttentionConfig& c) { c.h = 4, c.h_v = 9, c.g_k = 2, c.g_v = 3, c.mixing.P_l = c.mixing.P_w = true; });
  add("window", [](AttentionConfig& c) { c.causality = Causality::kCausal, c.window = 3, c.g_k = c.g_v = 2; });
  add("window_talking", [](AttentionConfig& c) {
    c.causality = Causality::kCausal, c.window = 2, c.h = 4, c.h_v = 9, c.mixing.P_l = c.mixing.P_w = true;
  });
  add("window_low_rank", [](AttentionConfig& c) {
    c.causality = Causality::kCausal, c.window = 3, c.dynamic_form = DynamicForm::kLowRank, c.d_g = 7;
  });
  add("window_differential", [](AttentionConfig& c) {
    c.causality = Causality::kCausal, c.window = 1, c.differential = Differential::kV2, c.h_v = 3;
  });
  add("low_rank", [](AttentionConfig& c) { c.dynamic_form = DynamicForm::kLowRank, c.d_g = 7; });
  add("low_rank_static",
      [](AttentionConfig& c) { c.dynamic_form = DynamicForm::kLowRank, c.mixing.P_l = c.mixing.P_w = true; });
  add("differential_v1", [](AttentionConfig& c) {
    c.differential = Differential::kV1, c.h_v = 3, c.head_norm = HeadNorm::kRmsGain, c.head_norm_factor = 0.6;
  });
  add("differential_v1_pairs", [](AttentionConfig& c) {
    c.h_k = c.h = 8, c.h_v = 4, c.g_k = 4, c.g_v = 2, c.key_sharing = KeySharing::kPairs;
    c.differential = Differential::kV1;
  });
  add("differential_v2", [](AttentionConfig& c) { c.differential = Differential::kV2, c.h_v = 3, c.g_k = c.g_v = 3; });
  add("convolved", [](AttentionConfig& c) {
    c.c_ql = 3, c.c_kl = 5, c.c_qw = 2, c.c_kw = 3;
    c.mixing.P_l = c.mixing.P_w = true, c.mixing_group = 3;
    c.head_norm = HeadNorm::kRmsGain, c.head_gate = HeadGate::kScalar;
  });
  add("convolved_logits", [](AttentionConfig& c) {
    c.c_ql = 4, c.c_kl = 3, c.convolution_keys = ConvolutionKeys::kLeft, c.head_gate = HeadGate::kElement;
  });
  add("convolved_weights", [](AttentionConfig& c) {
    c.c_qw = 3, c.c_kw = 4, c.convolution_keys = ConvolutionKeys::kRight, c.head_norm = HeadNorm::kRms;
    c.rotary = Rotary::kHalves;
  });
  return layers;
}

}  // namespace crosstalk
