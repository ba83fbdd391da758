// Which tokens are text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {

// true for the ids of the model's vocabulary that are text: no special token, no sentinel, none above the
// tokenizer's. Error(kUsage) where the tokenizer has more.
inline std::vector<bool> WritableTokens(const Tokenizer& tokenizer, int64_t vocabulary) {
  CROSSTALK_CHECK(tokenizer.vocab_size() <= vocabulary, "text writer: a tokenizer of ", tokenizer.vocab_size(),
                  " ids for a vocabulary of ", vocabulary);
  std::vector<bool> writable(static_cast<size_t>(vocabulary), false);
  std::fill_n(writable.begin(), tokenizer.vocab_size(), true);
  const SpecialTokens& special = tokenizer.special_tokens();
  for (const int32_t id : {special.pad, special.end, special.unknown, special.decoder_start, special.begin,
                           special.separator, special.mask}) {
    if (id != kNoToken) writable[static_cast<size_t>(id)] = false;
  }
  for (int k = 0; k < tokenizer.num_sentinels(); ++k) writable[static_cast<size_t>(tokenizer.Sentinel(k))] = false;
  return writable;
}

}  // namespace crosstalk
