// The language model's line in the registry: from a training configuration to a model.
#pragma once

#include <memory>
#include <string>

#include "crosstalk/models/registry.h"

namespace crosstalk {

Json ConfigureLm(const TrainingConfig& config, const Vocabulary& vocabulary);
std::unique_ptr<Model> MakeLm(const Json& config, const std::string& source, const Initializer& init);
Batch ReadTextForLm(const Model& model, const std::shared_ptr<const Tokenizer>& tokenizer, const InspectedText& text);

}  // namespace crosstalk
