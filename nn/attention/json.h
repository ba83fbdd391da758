// AttentionConfig to and from JSON, for run and model files.
#pragma once

#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

// {"form": "projected", "d_X": 512, …, "mixing": ["P_l", "P_w"], "key_value": "separate",
//  "projection_biases": false, "projection_stddev": 0.0, "scale": 1.0, "causality": "none", "dropout_rate": 0.0,
//  "mixing_init": "random", "implementation": "fused"}
Json ToJson(const AttentionConfig& config);

// Reads it back; the two of projections may be missing. Errors, also from Validate, come with the reader's path of the
// key; unknown members are errors.
AttentionConfig AttentionConfigFromJson(const JsonReader& reader);

}  // namespace crosstalk
