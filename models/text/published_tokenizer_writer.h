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
// The same; `more` are the pieces above the model's, and `rules` rewrite text before it reads it.
std::string PublishedJson(const UnigramModel& model, const std::vector<VocabularyPiece>& more, const TextRules& rules,
                          const Tokenizer& tokenizer);
// A token's members in tokenizer_config.json.
Json AddedTokenJson(const LiteralToken& token, bool special);

// The tokenizer_config.json beside it: a class that takes all rules from tokenizer.json, and the names of those special
// tokens that are literal in a text, as each one that it names is.
std::string PublishedJsonConfig(const Tokenizer& tokenizer, const TextRules& rules);

}  // namespace crosstalk
