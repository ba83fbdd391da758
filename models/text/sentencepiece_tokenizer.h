// Tokenizers from SentencePiece's `.model` files.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/text/sentencepiece_model.h"
#include "crosstalk/models/text/text_rules.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

// What Llama's code makes of a model: it has no padding unless it has a piece for it, and each text stands after its
// bos piece, and before its eos piece.
struct LlamaForm {
  bool begin = true;  // add_bos_token
  bool end = false;   // add_eos_token
};

struct SentencePieceModel {
  std::string bytes;  // of a `.model`, unigram or BPE
  // Pieces above its own, which only a literal token makes: control pieces (special tokens) and unused ones.
  std::vector<VocabularyPiece> more = {};
  // What is done to a text before the model reads it.
  std::optional<TextRules> rules = {};
  // Sentinels: pieces of the model, by number, or so many above all its ids. Where neither is said, the caller
  // says how many are above.
  std::vector<int32_t> sentinels = {};
  std::optional<int> sentinels_above = {};
  std::optional<LlamaForm> llama = {};
  // What stands around one text and around two; empty: what TemplateOf makes of the special tokens.
  PairTemplate single = {}, pair = {};
};

// Errors call the model `name`. Special tokens are its own control pieces, at whatever ids it has them:
//   unknown    the model's unknown piece
//   begin      its bos piece ("<s>"), else [CLS] or <cls>
//   separator  [SEP] or <sep>
//   mask       [MASK] or <mask>
//   pad        its pad piece ("<pad>"), else [PAD], else an id that is added above the model's own
//   end        its eos piece ("</s>"), else the separator, else an id that is added above the model's own
// Added ids follow the model's pieces, pad first, then end; the sentinels follow those, as T5's follow its pieces. So
// T5's files have pad 0, end 1, unknown 2 and nothing added; ALBERT's have pad 0, unknown 1, begin 2, separator and end
// 3, mask 4. With a LlamaForm nothing is added. Malformed or unsafe contents, or a pad that has another role too, throw
// Error(kData).
//
// A model with the control piece kLinesPiece keeps line ends, as its own pieces kLineEnd: a line's first word is
// spelled as it is within a line. (Left to the library, it would be a word without a space before it, which is rare,
// and so spelled in letters.)
//
// With rules, the model reads text as they leave it, and its spans are those of the text before: without the white
// space in front of a word, which is in the spans of a model without rules, so that a token that is only a space has
// none. Literal tokens' ids may be sentinels. Such a tokenizer, one whose sentinels are said, and one of Llama's form
// is kept as a descriptor, {"kind": "sentencepiece", …}, that holds the model.
std::shared_ptr<const Tokenizer> MakeSentencePieceTokenizer(SentencePieceModel model, const std::string& name,
                                                            int num_sentinels = kDefaultSentinels);

// From that descriptor.
std::shared_ptr<const Tokenizer> SentencePieceFromJson(const JsonReader& reader, const std::string& name);

inline constexpr char kLinesPiece[] = "<lines>";
inline constexpr char kLineEnd[] = "\n";

// Keeps the library from printing to standard error. Every use of the library calls it first.
void SilenceSentencePiece();

}  // namespace crosstalk
