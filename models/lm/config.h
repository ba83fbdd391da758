// LmConfig: the dimensions and options that define a language model, and their JSON.
#pragma once

#include <cstdint>
#include <string>

#include "crosstalk/models/text_model_config.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/transformer.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

struct LmConfig : TextModelConfig {
  int64_t layers = 0;
  int64_t context = 0;        // positions it is trained on, and writes with
  AttentionConfig attention;  // causal, of every layer
  PositionScheme positions = PositionScheme::kRelativeBias;
  // Of the tokens pad is used.

  // Throws a usage error that names the field at fault.
  void Validate() const;
};

Json ToJson(const LmConfig& config);
// Reads it back. Error(kData) with `source` and the key for what is missing, unknown or cannot be.
LmConfig LmConfigFromJson(const Json& json, const std::string& source);

}  // namespace crosstalk
