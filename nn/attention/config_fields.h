// AttentionConfig's table of fields, for run and model files.
#pragma once

#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/field.h"

namespace crosstalk {

// {"form": "projected", "d_X": 512, …, "mixing": ["P_l", "P_w"], "key_value": "separate",
//  "projection_biases": false, "projection_stddev": 0.0, "scale": 1.0, "causality": "none", "dropout_rate": 0.0,
//  "mixing_init": "random", "implementation": "fused"}
const FieldTable<AttentionConfig>& AttentionConfigFields();

}  // namespace crosstalk
