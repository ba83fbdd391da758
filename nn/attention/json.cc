#include "crosstalk/nn/attention/json.h"

#include <string>
#include <utility>
#include <vector>

#include "crosstalk/nn/attention/projections.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/enum_json.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

std::vector<std::string> MixingNames() {
  std::vector<std::string> names;
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (projection.mixing != nullptr) names.emplace_back(projection.name());
  }
  return names;
}

}  // namespace

Json ToJson(const AttentionConfig& config) {
  Json mixing = Json::MakeArray();
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (projection.mixing != nullptr && IsPresent(projection, config)) mixing.Append(std::string(projection.name()));
  }
  Json json = Json::MakeObject({{"form", Name(config.form)}});
  for (const AttentionDim& dim : kAttentionDims) json.Set(dim.name, config.*dim.size);
  json.Set("mixing", std::move(mixing))
      .Set("key_value", Name(config.key_value))
      .Set("projection_biases", config.projection_biases)
      .Set("projection_stddev", config.projection_stddev)
      .Set("scale", config.scale)
      .Set("causality", Name(config.causality))
      .Set("dropout_rate", config.dropout_rate)
      .Set("mixing_init", Name(config.mixing_init))
      .Set("implementation", Name(config.implementation));
  return json;
}

AttentionConfig AttentionConfigFromJson(const JsonReader& reader) {
  AttentionConfig config;
  config.form = ReadEnum<AttentionForm>(reader, "form");
  for (const AttentionDim& dim : kAttentionDims) config.*dim.size = reader.Int(dim.name);
  for (const Json& name : reader.Array("mixing")) {
    bool known = false;
    for (const AttentionProjection& projection : kAttentionProjections) {
      if (projection.mixing == nullptr || !name.is_string() || name.AsString() != projection.name()) continue;
      config.mixing.*projection.mixing = true;
      known = true;
    }
    if (!known) reader.FailAt("mixing", Excerpt(name.Dump()), " is not one of ", Join(MixingNames(), ", "));
  }
  config.key_value = ReadEnum<KeyValueProjection>(reader, "key_value");
  config.projection_biases = reader.Has("projection_biases") && reader.Bool("projection_biases");
  if (reader.Has("projection_stddev")) config.projection_stddev = reader.Double("projection_stddev");
  config.scale = reader.Double("scale");
  config.causality = ReadEnum<Causality>(reader, "causality");
  config.dropout_rate = reader.Double("dropout_rate");
  config.mixing_init = ReadEnum<MixingInit>(reader, "mixing_init");
  config.implementation = ReadEnum<AttentionImplementation>(reader, "implementation");
  reader.RejectUnread();
  try {
    config.Validate();
  } catch (const Error& error) {
    reader.FailAt(error.field(), error.what());
  }
  return config;
}

}  // namespace crosstalk
