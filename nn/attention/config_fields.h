// AttentionConfig's table of fields, for run and model files.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/field.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

// {"form": "projected", "d_X": 512, …, "mixing": ["P_l", "P_w"], "key_value": "separate",
//  "projection_biases": false, "projection_stddev": 0.0, "scale": 1.0, "causality": "none", "dropout_rate": 0.0,
//  "mixing_init": "random", "implementation": "fused"}
const FieldTable<AttentionConfig>& AttentionConfigFields();

// A list of such layers, which files leave out where it is empty.
template <typename Config>
Field<Config> MakeAttentionListField(std::string key, std::vector<AttentionConfig> Config::*layers) {
  Field<Config> field;
  field.key = key;
  field.options.only_if_set = true;
  field.member = MemberOf<Config>(layers);
  field.get = [layers](const Config& config) {
    Json list = Json::MakeArray();
    for (const AttentionConfig& layer : config.*layers) list.Append(FieldsToJson(AttentionConfigFields(), layer));
    return list;
  };
  field.set = [layers, key](Config& config, const Json& json) {
    CROSSTALK_CHECK_FIELD(json.is_array(), key, "must be a list of attention layers");
    std::vector<AttentionConfig> read;
    for (const Json& layer : json.AsArray()) {
      try {
        SetFields(AttentionConfigFields(), layer, read.emplace_back());
      } catch (const Error& error) {
        throw Error(error.kind(), StrCat(key, "[", read.size() - 1, "]: ", error.what()), key);
      }
    }
    config.*layers = std::move(read);
  };
  return field;
}

}  // namespace crosstalk
