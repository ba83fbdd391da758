// BERT's line in the registry, and what ALBERT's shares with it: from a training configuration to a model.
#pragma once

#include <memory>
#include <string>

#include "crosstalk/models/bert/config.h"
#include "crosstalk/models/registry.h"

namespace crosstalk {

// The published form's defaults: GELU, explicit scale, clipping at norm 1, no z-loss.
void ResolveBert(TrainingConfig& config);
Json ConfigureBert(const TrainingConfig& config, const Vocabulary& vocabulary);
std::unique_ptr<Model> MakeBert(const Json& config, const std::string& source, const Initializer& init);
Batch ReadTextForBert(const Model& model, const std::shared_ptr<const Tokenizer>& tokenizer, const InspectedText& text);

// Of both: all but what ALBERT has beside it, not validated.
BertConfig BertConfigFrom(const TrainingConfig& config, const Vocabulary& vocabulary);

}  // namespace crosstalk
