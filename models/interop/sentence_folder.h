// How a folder of the library sentence-transformers makes vectors of texts: modules.json, the Pooling that it names,
// and sentence_bert_config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/decoding/embedding.h"
#include "crosstalk/models/model_config.h"

namespace crosstalk {

inline constexpr char kModulesName[] = "modules.json";

// What the folder of a model says of its vectors; a folder without modules.json, and a path that is none, says nothing:
// the options are those of EmbedOptions. Steps that are not computed are in `remarks`. Error(kData) that names file and
// key for modules other than Transformer, Pooling and Normalize, another pooling, and sizes that are not the model's.
EmbedOptions SentenceOptions(const std::string& folder, const ModelConfig& model, std::vector<std::string>* remarks);

}  // namespace crosstalk
