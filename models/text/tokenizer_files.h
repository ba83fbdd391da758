// What the files of tokenizers are checked by: whether two tokenizers are the same one.
#pragma once

#include <string>

#include "crosstalk/models/text/tokenizer.h"

namespace crosstalk {

enum class Compared {
  kAll,     // ids, their bytes and the text that they become
  kIds,     // ids, of texts in which implementations of one published tokenizer do not differ
  kPieces,  // the same, without what files add to a vocabulary: numbers of ids, special tokens, the tokens around a
            // text
};

// "has 12 ids, not 13": how `other` differs from `expected` in its ids, or in what it makes of texts that show the
// rules of either, its vocabulary among them; "" where it differs in nothing of these.
std::string TokenizerDifference(const Tokenizer& expected, const Tokenizer& other, Compared compared = Compared::kAll);

// The first id that they show otherwise, in the same words. No text need become such an id.
std::string NameDifference(const Tokenizer& expected, const Tokenizer& other);

// Error(kData) of the field "tokenizer" unless the file that keeps it (FileName and FileContents) gives the same
// tokenizer again, read as the file of a run with so many sentinels is.
void CheckKept(const Tokenizer& tokenizer, int num_sentinels);

}  // namespace crosstalk
