// LmConfig: the dimensions and options that define a language model.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/model_config.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/transformer.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

struct LmConfig : ModelConfig {
  int64_t layers = 0;
  int64_t context = 0;        // positions it is trained on, and writes with
  AttentionConfig attention;  // causal, of every layer
  // Of each layer its own, where they differ.
  std::vector<AttentionConfig> layer_attention;
  PositionScheme positions = PositionScheme::kRelativeBias;
  // Of the tokens pad is used.

  const char* model() const override { return "lm"; }
  Json ToJson() const override;
  void Validate() const override;
  std::unique_ptr<Model> Make(const Initializer& init) const override;
  std::unique_ptr<ModelConfig> Clone() const override { return std::make_unique<LmConfig>(*this); }
  std::vector<AttentionConfig*> AttentionLayers() override;
  void KeepFrom(const ModelConfig& origin, const ModelConfig& before) override;
};

std::unique_ptr<ModelConfig> ConfigureLm(const ModelOptions& options, const ModelPurpose& purpose);
std::unique_ptr<ModelConfig> ReadLmConfig(const Json& json, const std::string& source);

}  // namespace crosstalk
