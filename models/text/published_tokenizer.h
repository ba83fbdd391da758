// `tokenizer.json`, the file in which Hugging Face publishes tokenizers: those of BERT (WordPiece), T5 and ALBERT
// (Unigram).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/text/wordpiece_tokenizer.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

// WordPiece: the model, a BertNormalizer or none, a BertPreTokenizer. Unigram: it is made a SentencePiece model, which
// the SentencePiece library reads, so that ids are those of the published `.model`:
//   normalizer     steps before the precompiled table (Replace of a text, NFKD, NFD, StripAccents, Lowercase) become
//                  TextRules; those that take white space away (Strip, Replace of " {2,}") are done by the library
//   pre_tokenizer  Metaspace, alone or after WhitespaceSplit
//   added tokens   are literal tokens; <extra_id_0>, <extra_id_1>, … with the highest ids, falling, are the sentinels
// Where the two libraries differ, SentencePiece's way is taken: its table is applied from left to right to the longest
// match, not grapheme by grapheme; white space at either end of a text and repeated is none, even where Metaspace
// stands alone; scores are floats. The template must be BERT's or T5's (pair_encoding.h). Truncation and padding are a
// batch's affair and not looked at.
//
// Error(kData) with `name` and the key's path for every key and value that is not understood. Without sentinels of its
// own it gets `num_sentinels` above its ids.
std::unique_ptr<Tokenizer> PublishedTokenizerFromJson(const Json& json, const std::string& name, int num_sentinels);

// The rules of its BertNormalizer; nullopt where it has another.
std::optional<BertRules> PublishedBertRules(const Json& json, const std::string& name);

}  // namespace crosstalk
