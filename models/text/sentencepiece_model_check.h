// A check of a SentencePiece `.model` before the library sees it: the library trusts what it loads.
#pragma once

#include <string>
#include <string_view>

namespace crosstalk {

// Throws Error(kData) with `name` and the byte offset unless `model` is a well-formed protocol buffer of a
// SentencePiece model of kind unigram or BPE whose pieces are of bounded length, distinct, valid UTF-8 with finite
// scores, and whose normalisation tables stay within their own bounds wherever a text leads them.
void CheckSentencePieceModel(std::string_view model, const std::string& name);

}  // namespace crosstalk
