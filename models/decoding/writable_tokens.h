// Which tokens stand for text.
#pragma once

#include <vector>

#include "crosstalk/models/text/tokenizer.h"

namespace crosstalk {

// true for the ids that stand for text: no special token, no sentinel. Of the vocabulary's size.
inline std::vector<bool> WritableTokens(const Tokenizer& tokenizer) {
  std::vector<bool> writable(static_cast<size_t>(tokenizer.vocab_size()), true);
  const SpecialTokens& special = tokenizer.special_tokens();
  for (const int32_t id : {special.pad, special.end, special.unknown, special.decoder_start, special.begin,
                           special.separator, special.mask}) {
    if (id != kNoToken) writable[static_cast<size_t>(id)] = false;
  }
  for (int k = 0; k < tokenizer.num_sentinels(); ++k) writable[static_cast<size_t>(tokenizer.Sentinel(k))] = false;
  return writable;
}

}  // namespace crosstalk
