// T5 as the registry makes it: from a training configuration, and from JSON.
#pragma once

#include <memory>
#include <string>

#include "crosstalk/models/registry.h"

namespace crosstalk {

void ResolveT5(TrainingConfig& config);
Json ConfigureT5(const TrainingConfig& config, const Vocabulary& vocabulary);
std::unique_ptr<Model> MakeT5(const Json& config, const std::string& source, const Initializer& init);
Batch ReadTextForT5(const Model& model, const std::shared_ptr<const Tokenizer>& tokenizer, const InspectedText& text);

}  // namespace crosstalk
