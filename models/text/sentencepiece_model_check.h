// A check of a SentencePiece `.model` before the library sees it: the library trusts what it loads.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace crosstalk {

// Published models have up to 5 MB. The library takes up to 35 times a model's size in memory, and a second a megabyte.
inline constexpr size_t kMaxSentencePieceModelBytes = size_t{64} << 20;

// Throws Error(kData) with `name` and the byte offset unless `model` is a well-formed protocol buffer of a
// SentencePiece model of kind unigram or BPE whose pieces are of bounded length, distinct, valid UTF-8 with finite
// scores, and whose normalisation tables stay within their own bounds wherever a text leads them. Also refused, because
// the library has no room: too many user-defined pieces or normalisation rules that apply at one place of a text,
// and replacements that make a text many times as long. The check itself takes three times the model's size in memory.
void CheckSentencePieceModel(std::string_view model, const std::string& name);

}  // namespace crosstalk
