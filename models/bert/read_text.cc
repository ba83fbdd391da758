// One text or two as a BERT's or an ALBERT's inputs.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "crosstalk/models/bert/build.h"
#include "crosstalk/models/text/blanks.h"
#include "crosstalk/models/text/pair_encoding.h"
#include "crosstalk/models/text_inputs.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

// The tokens of a text, with [MASK] for each of its blanks.
std::vector<TokenSpan> WithMasks(const char* field, const std::string& text, const Tokenizer& tokenizer) {
  const int32_t mask = tokenizer.special_tokens().mask;
  std::vector<TokenSpan> tokens;
  bool first = true;
  for (const std::string& part : SplitAtBlanks(text)) {
    CROSSTALK_CHECK_FIELD(first || mask != kNoToken, field, "has a blank, but the tokenizer has no [MASK]");
    if (!first) tokens.push_back({mask, 0, 0});
    first = false;
    for (const TokenSpan& token : tokenizer.EncodeSpans(part)) tokens.push_back(token);
  }
  return tokens;
}

}  // namespace

Batch ReadTextForBert(const Model&, const std::shared_ptr<const Tokenizer>& tokenizer, const InspectedText& text) {
  CROSSTALK_CHECK_FIELD(!text.target, "target", "is for a model with a decoder");
  const std::vector<TokenSpan> first = WithMasks("text", text.text, *tokenizer);
  std::vector<TokenSpan> second;
  std::optional<std::span<const TokenSpan>> behind;
  if (text.second) {
    second = WithMasks("second", *text.second, *tokenizer);
    behind = second;
  }
  std::vector<int32_t> ids, segments;
  for (const EncodedPair::Token& token : JoinPair(*tokenizer, first, behind).tokens) {
    ids.push_back(token.id);
    segments.push_back(token.segment);
  }
  CROSSTALK_CHECK_FIELD(!ids.empty(), "text", "is empty");
  const Shape row = {1, static_cast<int64_t>(ids.size())};
  Batch batch;
  batch.Add("input_ids", Tensor::FromValues<int32_t>(row, ids));
  batch.Add("token_type_ids", Tensor::FromValues<int32_t>(row, segments));
  return batch;
}

}  // namespace crosstalk
