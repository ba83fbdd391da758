// The rules about text that published tokenizers add to a SentencePiece model: T5's and ALBERT's.
#pragma once

#include <optional>
#include <string_view>

#include "crosstalk/models/text/text_rules.h"

namespace crosstalk {

// ALBERT's rewriting of text before its `.model` reads it, after Google's preprocess_text: white space
// becomes spaces, `` and '' become ", then NFKD without combining characters, and lower case; and split_numbers.
struct AlbertRules {
  bool keep_accents = false;
  bool lower_case = true;
};
// With the model's own <pad>, <unk>, [CLS], [SEP] and [MASK] as literal tokens.
TextRules RulesOf(const AlbertRules& albert, std::string_view model);
// T5's: the model's own <pad>, </s>, <unk> and sentinels, and the `num_sentinels` above its pieces, are literal tokens.
TextRules T5Rules(std::string_view model, int num_sentinels);

// A bare model's kind: it is taken for one of ALBERT's if [CLS], [SEP] and [MASK] are control pieces of it
// and it does not spell in bytes (as those that are trained here do), and for an uncased one unless a piece has an
// upper-case letter. nullopt: none of ALBERT's.
std::optional<AlbertRules> LooksLikeAlbert(std::string_view model);

}  // namespace crosstalk
