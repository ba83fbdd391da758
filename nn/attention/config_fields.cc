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
    return Joined(
        std::move(rows),
        {MakeField("key_value", &Config::key_value, {}),
         MakeField("projection_biases", &Config::projection_biases, {.may_be_missing = true}),
         MakeField("projection_stddev", &Config::projection_stddev, {.may_be_missing = true, .of_the_origin = true}),
         MakeField("scale", &Config::scale, {}), MakeField("causality", &Config::causality, {}),
         MakeField("dropout_rate", &Config::dropout_rate, {.of_the_origin = true}),
         MakeField("mixing_init", &Config::mixing_init, {}), MakeField("implementation", &Config::implementation, {})});
  }();
  return table;
}

}  // namespace crosstalk
