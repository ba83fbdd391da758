#include "crosstalk/nn/attention/config_fields.h"

#include <string>
#include <utility>
#include <vector>

#include "crosstalk/nn/attention/projections.h"

namespace crosstalk {

const FieldTable<AttentionConfig>& AttentionConfigFields() {
  using Config = AttentionConfig;
  static const FieldTable<Config> table = [] {
    FieldTable<Config> rows = {MakeField("form", &Config::form, {})};
    for (const AttentionDim& dim : kAttentionDims) rows.push_back(MakeField(std::string(dim.name), dim.size, {}));
    std::vector<std::pair<std::string, bool HeadMixing::*>> mixings;
    for (const AttentionProjection& projection : kAttentionProjections) {
      if (projection.mixing != nullptr) mixings.emplace_back(projection.name(), projection.mixing);
    }
    rows.push_back(MakeNamesField("mixing", &Config::mixing, std::move(mixings)));
    return Joined(std::move(rows),
                  {MakeField("key_value", &Config::key_value, {}),
                   MakeField("g_k", &Config::g_k, {.only_if_set = true}),
                   MakeField("g_v", &Config::g_v, {.only_if_set = true}),
                   MakeField("key_sharing", &Config::key_sharing, {.only_if_set = true}),
                   MakeField("mixing_group", &Config::mixing_group, {.only_if_set = true}),
                   MakeField("dynamic_form", &Config::dynamic_form, {.only_if_set = true}),
                   MakeField("d_g", &Config::d_g, {.only_if_set = true}),
                   MakeField("differential", &Config::differential, {.only_if_set = true}),
                   MakeField("lambda_init", &Config::lambda_init, {.only_if_set = true}),
                   MakeField("c_ql", &Config::c_ql, {.only_if_set = true}),
                   MakeField("c_kl", &Config::c_kl, {.only_if_set = true}),
                   MakeField("c_qw", &Config::c_qw, {.only_if_set = true}),
                   MakeField("c_kw", &Config::c_kw, {.only_if_set = true}),
                   MakeField("convolution_keys", &Config::convolution_keys, {.only_if_set = true}),
                   MakeField("query_key_norm", &Config::query_key_norm, {.only_if_set = true}),
                   MakeField("rotary", &Config::rotary, {.only_if_set = true}),
                   MakeField("rotary_base", &Config::rotary_base, {.only_if_set = true}),
                   MakeField("head_norm", &Config::head_norm, {.only_if_set = true}),
                   MakeField("head_norm_factor", &Config::head_norm_factor, {.only_if_set = true}),
                   MakeField("head_gate", &Config::head_gate, {.only_if_set = true}),
                   MakeField("projection_biases", &Config::projection_biases, {.may_be_missing = true}),
                   MakeField("projection_stddev", &Config::projection_stddev, {.may_be_missing = true}),
                   MakeField("scale", &Config::scale, {}),
                   MakeField("causality", &Config::causality, {}),
                   MakeField("dropout_rate", &Config::dropout_rate, {}),
                   MakeField("mixing_init", &Config::mixing_init, {}),
                   MakeField("implementation", &Config::implementation, {})});
  }();
  return table;
}

}  // namespace crosstalk
