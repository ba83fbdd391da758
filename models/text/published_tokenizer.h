// The files in which Hugging Face publishes tokenizers, `tokenizer.json`, `vocab.txt`, `.model`, and `vocab.json` with
// `merges.txt`, as tokenizers: WordPiece (BERT's), Unigram (T5's and ALBERT's) and byte-pair encoding (GPT-2's,
// RoBERTa's, Llama's and Qwen's).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/text/bpe_tokenizer.h"
#include "crosstalk/models/text/sentencepiece_model.h"
#include "crosstalk/models/text/text_rules.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/text/tokenizer_settings.h"
#include "crosstalk/models/text/traced_text.h"
#include "crosstalk/models/text/wordpiece_tokenizer.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

// What speaks first where a tokenizer.json and the files beside it speak of the same: its added tokens, its rules.
enum class Precedence { kFile, kSettings };

// A `tokenizer.json`. WordPiece:
//   normalizer     BertNormalizer, NFD, NFKD, StripAccents, Lowercase, Replace of a text, Strip; one, several or none
//   pre_tokenizer  BertPreTokenizer; Whitespace, WhitespaceSplit, or that and Punctuation
// Unigram: it is made a SentencePiece model, which the SentencePiece library reads, so that ids are those of the
// published `.model`:
//   normalizer     steps before the precompiled table (Replace of a text, NFKD, NFD, StripAccents, Lowercase) become
//                  TextRules; the model takes spaces away for those after it (Strip, Replace of " {2,}")
//   pre_tokenizer  Metaspace, alone or after WhitespaceSplit
// BPE:
//   normalizer     NFC, NFKC, NFD, NFKD, StripAccents, Lowercase, Replace of a text, Strip, Prepend; one, several or
//   none pre_tokenizer  steps that cut (Split, Digits, Punctuation, Whitespace, WhitespaceSplit), then ByteLevel; or
//   Metaspace;
//                  or none
//   decoder        ByteLevel; or Replace of ▁, ByteFallback, Fuse and Strip of a space
// Added tokens are literal tokens; <extra_id_0>, <extra_id_1>, … are the sentinels, at whatever ids they have.
// Where the two libraries differ, SentencePiece's way is taken: its table is applied from left to right to the longest
// match, not grapheme by grapheme; a special token's piece is not found in a text; scores are floats. A WordPiece's
// template must be BERT's (encoding.h). Truncation and padding are a batch's affair and not looked at.
//
// Error(kData) with `name` and the key's path for every key and value that is not understood. Without sentinels of its
// own it gets `num_sentinels` above its ids.
std::shared_ptr<const Tokenizer> PublishedTokenizerFromJson(const Json& json, const std::string& name,
                                                            int num_sentinels, const TokenizerSettings& settings = {},
                                                            Precedence precedence = Precedence::kFile);

// The lines of a `vocab.txt`. What the settings leave open of case and accents, `json`, a tokenizer.json beside it,
// says if it is not null; else a vocabulary is cased if one of its pieces has an upper-case letter.
std::shared_ptr<const Tokenizer> TokenizerFromVocabulary(std::string_view contents, const std::string& name,
                                                         int num_sentinels, const TokenizerSettings& settings = {},
                                                         const Json* json = nullptr);

// A `.model`, of T5, ALBERT or neither, as the settings say; where they do not, the model's own pieces do
// (LooksLikeAlbert). T5's has 100 sentinels unless the settings say otherwise.
std::shared_ptr<const Tokenizer> TokenizerFromModel(const std::string& contents, const std::string& name,
                                                    int num_sentinels, const TokenizerSettings& settings);

// The contents of a `vocab.json` and a `merges.txt`, of GPT-2, RoBERTa or Qwen as the settings say, else of GPT-2.
std::shared_ptr<const Tokenizer> TokenizerFromMerges(const Tokenizer::PublishedFile& vocabulary,
                                                     const Tokenizer::PublishedFile& merges, int num_sentinels,
                                                     const TokenizerSettings& settings);

// A ByT5's, which has no vocabulary's file: the bytes, its special tokens, and above them the added ones, <extra_id_0>,
// … if none is named. `name` is the tokenizer_config.json that says so.
std::shared_ptr<const Tokenizer> TokenizerOfBytes(const std::string& name, const TokenizerSettings& settings);
// Bytes of which some texts are tokens. Error(kData) with `name` for ids that are another's or leave a gap.
std::shared_ptr<const Tokenizer> MakeByteTokenizer(const std::vector<LiteralToken>& literal, const std::string& name);

// The added tokens of a tokenizer.json.
std::vector<AddedToken> PublishedAddedTokens(const Json& json, const std::string& name);

// A tokenizer's vocabulary with added tokens: the literal tokens, with their ids, and the tokens above the vocabulary.
struct LiteralsAndMore {
  std::vector<LiteralToken> literal;
  std::vector<AddedToken> more;
  std::vector<AddedToken> tokens;  // all that are said, with their ids
};
// `base` has literal tokens that are not said to be; `pieces` the vocabulary by id. Error(kData) for a token without an
// id, or with one that is another piece's or leaves a gap.
LiteralsAndMore ResolveTokens(std::vector<LiteralToken> base, const std::vector<AddedToken>& tokens,
                              const std::vector<std::string>& pieces, const TokenizerSettings& settings);

// What the readers of published tokenizers share, and the Unigram and BPE models of a `tokenizer.json`.

std::shared_ptr<const Tokenizer> ReadUnigram(const JsonReader& file, const JsonReader& model, const std::string& name,
                                             const std::vector<AddedToken>& tokens, int num_sentinels,
                                             const TokenizerSettings& settings);

std::shared_ptr<const Tokenizer> ReadBpe(const JsonReader& file, const JsonReader& model, const std::string& name,
                                         const std::vector<AddedToken>& tokens, int num_sentinels,
                                         const TokenizerSettings& settings, Precedence precedence);

// {"[PAD]": 0, …} by id; the ids must be 0 and up without a gap. `source` is for messages.
std::vector<std::string> ReadPieceMap(const Json& map, const std::string& source);
// What a post_processor puts around one text and around two; what it does not say stays.
void ReadPostProcessor(const JsonReader& processor, const std::string& name, PairTemplate* single, PairTemplate* pair);
// Error(kData) unless each has its texts once, in order, and special tokens below `ids`.
void CheckTemplates(const PairTemplate& single, const PairTemplate& pair, int64_t ids, const std::string& name);
// The ids of the sentinels 0, 1, … among the tokens, as far as there is one of each number.
std::vector<int32_t> SentinelsAmong(const LiteralsAndMore& resolved);

// A value that must be of one of the kinds that are understood.
[[noreturn]] void RefuseType(const JsonReader& reader, std::string_view understood);

// Calls visit(step, its type) for each step of the file's normalizer, in their order.
void ForEachStep(const JsonReader& file, const std::string& name,
                 const std::function<void(const JsonReader& step, const std::string& type)>& visit);
// A step that is a rewriting; nullopt of another kind.
std::optional<Rewrite> ReadRewrite(const JsonReader& step, const std::string& type);
struct Strip {
  bool left, right;
};
Strip ReadStrip(const JsonReader& step);
void AppendStrip(const Strip& strip, std::vector<Rewrite>* rewrites);

// `tokenizer.json` as Hugging Face publishes it, written: what PublishedTokenizerFromJson reads. Error(kUsage) that
// names the rule where the form has no place for one.

// The tokenizer.json of `tokenizer`, which is made of the model.
Json PublishedJson(const WordPieceModel& model, const Tokenizer& tokenizer);
Json PublishedJson(const BpeModel& model, const Tokenizer& tokenizer);
// The same; `more` are the pieces above the model's, and `rules` rewrite text before it reads it.
Json PublishedJson(const UnigramModel& model, const std::vector<VocabularyPiece>& more, const TextRules& rules,
                   const Tokenizer& tokenizer);
// Its member post_processor, of the tokenizer's template.
Json PostProcessorJson(const Tokenizer& tokenizer);
// A token's members in tokenizer_config.json.
Json AddedTokenJson(const LiteralToken& token, bool special);

// The tokenizer_config.json beside it: a class that takes all rules from tokenizer.json, and the names of those special
// tokens that are literal in a text, as each one that it names is.
std::string PublishedJsonConfig(const Tokenizer& tokenizer, const TextRules& rules);

}  // namespace crosstalk
