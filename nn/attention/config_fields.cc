// AttentionConfig's form in run and model files:
// {"form": "projected", "d_X": 512, …, "mixing": ["P_l", "P_w"], "key_value": "separate", "projection_biases": false,
// "projection_stddev": 0.0, "scale": 1.0, "causality": "none", "dropout_rate": 0.0, "mixing_init": "random",
// "implementation": "fused"}
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/attention/projections.h"

namespace crosstalk {

std::vector<std::pair<std::string, bool HeadMixing::*>> HeadMixing::Names() {
  std::vector<std::pair<std::string, bool HeadMixing::*>> names;
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (projection.mixing != nullptr) names.emplace_back(projection.name(), projection.mixing);
  }
  return names;
}

const FieldTable<AttentionConfig>& AttentionConfig::Fields() {
  using Config = AttentionConfig;
  using Frequencies = kernels::RotaryFrequencies;
  static const FieldTable<Config> table = [] {
    const FieldOptions if_set = {.only_if_set = true};
    FieldTable<Config> rows = {{"form", &Config::form}};
    for (const AttentionDim& dim : kAttentionDims) rows.emplace_back(std::string(dim.name), dim.size);
    return Joined(
        std::move(rows),
        {{"mixing", &Config::mixing},
         {"key_value", &Config::key_value},
         {"g_k", &Config::g_k, if_set},
         {"g_v", &Config::g_v, if_set},
         {"key_sharing", &Config::key_sharing, if_set},
         {"mixing_group", &Config::mixing_group, if_set},
         {"dynamic_form", &Config::dynamic_form, if_set},
         {"d_g", &Config::d_g, if_set},
         {"differential", &Config::differential, if_set},
         {"lambda_init", &Config::lambda_init, if_set},
         {"c_ql", &Config::c_ql, if_set},
         {"c_kl", &Config::c_kl, if_set},
         {"c_qw", &Config::c_qw, if_set},
         {"c_kw", &Config::c_kw, if_set},
         {"convolution_keys", &Config::convolution_keys, if_set},
         {"query_key_norm", &Config::query_key_norm, if_set},
         {"rotary", &Config::rotary, if_set},
         {"rotary_base", Within(&Config::rotary_frequencies, &Frequencies::base), if_set},
         {"rotary_factor", Within(&Config::rotary_frequencies, &Frequencies::factor), if_set},
         {"rotary_original_context", Within(&Config::rotary_frequencies, &Frequencies::original_context), if_set},
         {"rotary_low", Within(&Config::rotary_frequencies, &Frequencies::low), if_set},
         {"rotary_high", Within(&Config::rotary_frequencies, &Frequencies::high), if_set},
         {"head_norm", &Config::head_norm, if_set},
         {"head_norm_factor", &Config::head_norm_factor, if_set},
         {"head_gate", &Config::head_gate, if_set},
         {"projection_biases", &Config::projection_biases, {.may_be_missing = true}},
         {"output_bias", &Config::output_bias, if_set},
         {"projection_stddev", &Config::projection_stddev, {.may_be_missing = true}},
         {"scale", &Config::scale},
         {"causality", &Config::causality},
         {"window", &Config::window, if_set},
         {"dropout_rate", &Config::dropout_rate},
         {"mixing_init", &Config::mixing_init},
         {"implementation", &Config::implementation}});
  }();
  return table;
}

}  // namespace crosstalk
