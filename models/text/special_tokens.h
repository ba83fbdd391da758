// The ids with a meaning of their own. They belong to a tokenizer, which a model's configuration takes them from.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "crosstalk/runtime/field.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

inline constexpr int32_t kNoToken = -1;
// The ids that SpecialTokens has by default: 0, 1 and 2.
inline constexpr int32_t kSpecialIds = 3;

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

// Whether a tokenizer has what masked language modelling takes: [CLS], [SEP] and [MASK].
enum class MaskTokens { kNo, kYes };
inline constexpr int32_t kMaskTokens = 3;
// The same tokens with begin = first, separator = first + 1, mask = first + 2.
SpecialTokens WithMaskTokens(SpecialTokens tokens, int32_t first);

// {"pad": 0, …}: all of them.
const FieldTable<SpecialTokens>& SpecialTokensFields();

// Each id must be in a vocabulary of that size, or be kNoToken where it is not among those that are needed.
// Error(kUsage) of the field "tokens.NAME".
void CheckSpecialTokens(const SpecialTokens& tokens, int64_t vocabulary,
                        std::initializer_list<int32_t SpecialTokens::*> needed);

}  // namespace crosstalk
