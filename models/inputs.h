// What a model reads, made ready: inputs of a published model's kind, and text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/models/batch.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/nn/transformer.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk {

// The inputs of Model::Outputs, by their published names: checked, and in the types that models compute with. Ids and
// labels may be int32 or int64; a mask may be of any type, 0 and 1. Errors are Error(kUsage) that begin with the name.

// Labels that count nothing.
inline constexpr int32_t kIgnoredLabel = -100;

// int32 of the same shape, each of rank `rank` and in [low, high]; undefined where the batch has no such input.
struct IdRange {
  int64_t low;
  int64_t high;
};
Tensor InputIds(const Batch& inputs, const char* name, int rank, const IdRange& range);
// The ids `input_ids`, which must be there and hold something.
Tensor RequiredInputIds(const Batch& inputs, int rank, int64_t vocabulary);
// The same as InputIds for labels: each a class below `classes`, or kIgnoredLabel.
Tensor InputLabels(const Batch& inputs, const char* name, int rank, int64_t classes);
// bool of the same shape, which must be `shape`; undefined if there is none.
Tensor InputMask(const Batch& inputs, const char* name, const Shape& shape);
// The same, all true if there is none: padding is attended to then, as in the published code.
Tensor InputMaskOrAll(const Batch& inputs, const char* name, const Shape& shape);
// Every input must be one of these.
void CheckInputNames(const Batch& inputs, const std::vector<std::string>& known);

// hidden[b, n, d] where a batch's positions[b, p], int32 of that name, are asked for a target: [b·p, d]. Error(kUsage)
// for a position that is not in [0, n).
Variable AtPositions(const Variable& hidden, const Tensor& positions, const char* name);

// Mean over the labels that are not kIgnoredLabel of -ln p, from logits[…, classes] and labels int32[…] named `name`.
Variable MeanCrossEntropy(const Variable& logits, const Tensor& labels, const char* name);

// "PREFIXhidden_states.0", … except the last, and "PREFIXattentions.0", ….
void AddRecord(const TransformerRecord& record, const std::string& prefix, std::vector<NamedVariable>& outputs);

}  // namespace crosstalk

#pragma GCC visibility push(default)
namespace crosstalk {

// A text of the user's as the inputs that a model computes with (Model::Outputs), so that one can look at what the
// model makes of it.

// Beyond it the maps of a small model take gigabytes.
inline constexpr int64_t kMostInspectedTokens = 4096;

struct InspectedText {
  // Three underscores are a blank: a sentinel to a T5, [MASK] to a BERT, themselves to a language model.
  std::string text;
  std::optional<std::string> second;  // of a BERT or an ALBERT: its second segment
  // For a T5, what its decoder is to write; each blank is the next sentinel. Else what the model itself writes,
  // taking the likeliest token each time.
  std::optional<std::string> target;
  int64_t max_tokens = 64;  // that the model may read, and of its own writing
};

// One row: input_ids, and where the model has them decoder_input_ids or token_type_ids. Error(kUsage) of the field
// text, second or target for what the model has no use for or cannot take, and if there are more than max_tokens.
Batch ReadText(const Model& model, const std::shared_ptr<const Tokenizer>& tokenizer, const InspectedText& text);

}  // namespace crosstalk
#pragma GCC visibility pop
