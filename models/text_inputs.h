// A text of the user's as the inputs that a model computes with (Model::Outputs), so that one can look at what the
// model makes of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "crosstalk/models/batch.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// Beyond it the maps of a small model take gigabytes.
inline constexpr int64_t kMostInspectedTokens = 4096;

struct InspectedText {
  // Three underscores are a blank: a sentinel to a T5, [MASK] to a BERT, themselves to a language model.
  std::string text;
  std::optional<std::string> second;  // of a BERT or an ALBERT: its second segment
  // Of a T5, what its decoder is to write; each blank is the next sentinel. Else what the model itself writes,
  // taking the likeliest token each time.
  std::optional<std::string> target;
  int64_t max_tokens = 64;  // that the model may read, and of its own writing
};

// One row: input_ids, and where the model has them decoder_input_ids or token_type_ids. Error(kUsage) of the field
// text, second or target for what the model has no use for or cannot take, and where there are more than max_tokens.
Batch ReadText(const Model& model, const std::shared_ptr<const Tokenizer>& tokenizer, const InspectedText& text);

}  // namespace crosstalk
