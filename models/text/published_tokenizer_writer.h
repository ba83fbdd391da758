// `tokenizer.json` as Hugging Face publishes it, written: what PublishedTokenizerFromJson reads. Error(kUsage) that
// names the rule where the form has no place for one.
#pragma once

#include <string>

#include "crosstalk/models/text/sentencepiece_proto.h"
#include "crosstalk/models/text/text_rules.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/text/wordpiece_tokenizer.h"

namespace crosstalk {

// Of `tokenizer`, which is made of the model.
std::string PublishedJson(const WordPieceModel& model, const Tokenizer& tokenizer);
// The same; `rules` rewrite text before its model reads it.
std::string PublishedJson(const UnigramModel& model, const TextRules& rules, const Tokenizer& tokenizer);

// The tokenizer_config.json beside it: a class that takes all rules from tokenizer.json, and the special tokens' names.
std::string PublishedJsonConfig(const Tokenizer& tokenizer);

}  // namespace crosstalk
