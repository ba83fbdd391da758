// Tokenizers from SentencePiece's `.model` files.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "crosstalk/models/text/tokenizer.h"

namespace crosstalk {

// From the bytes of a SentencePiece `.model`, unigram or BPE; `name` is what errors call it. Special tokens are the
// model's own control pieces, at whatever ids it has them:
//   unknown    the model's unknown piece
//   begin      its bos piece ("<s>"), else [CLS] or <cls>
//   separator  [SEP] or <sep>
//   mask       [MASK] or <mask>
//   pad        its pad piece ("<pad>"), else [PAD], else an id that is added above the model's own
//   end        its eos piece ("</s>"), else the separator, else an id that is added above the model's own
// Added ids follow the model's pieces, pad first, then end; the sentinels follow those, as T5's follow its pieces. So
// T5's files have pad 0, end 1, unknown 2 and nothing added; ALBERT's have pad 0, unknown 1, begin 2, separator and end
// 3, mask 4. Malformed or unsafe contents, or a pad that has another role too, throw Error(kData).
//
// A model with the control piece kLinesPiece keeps line ends, as its own pieces kLineEnd: a line's first word is
// spelled as it is within a line. (Left to the library, it would be a word without a space before it, which is rare,
// and so spelled in letters.)
std::unique_ptr<Tokenizer> MakeSentencePieceTokenizer(std::string_view model, const std::string& name,
                                                      int num_sentinels = kDefaultSentinels);

inline constexpr char kLinesPiece[] = "<lines>";
inline constexpr char kLineEnd[] = "\n";

// Keeps the library from printing to standard error. Every use of the library calls it first.
void SilenceSentencePiece();

}  // namespace crosstalk
