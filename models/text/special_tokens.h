// The ids with a meaning of their own. They belong to a tokenizer, which a model's configuration takes them from.
#pragma once

#include <cstdint>

#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

inline constexpr int32_t kNoToken = -1;

// The defaults are T5's. kNoToken where a vocabulary has none.
struct SpecialTokens {
  int32_t pad = 0;            // fills rows up to their length
  int32_t end = 1;            // of a sequence
  int32_t unknown = 2;        // what the vocabulary cannot say
  int32_t decoder_start = 0;  // what a decoder reads before its first token
  int32_t begin = kNoToken;   // of a sequence: BERT's [CLS]
  int32_t separator = kNoToken;
  int32_t mask = kNoToken;

  friend bool operator==(const SpecialTokens&, const SpecialTokens&) = default;
};

}  // namespace crosstalk
