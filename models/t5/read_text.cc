// A text as a T5's inputs, with what its decoder writes.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/t5/build.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/models/text/blanks.h"
#include "crosstalk/models/text_inputs.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

Tensor Row(const std::vector<int32_t>& ids) {
  return Tensor::FromValues<int32_t>({1, static_cast<int64_t>(ids.size())}, ids);
}

}  // namespace

Batch ReadTextForT5(const Model& model, const std::shared_ptr<const Tokenizer>& tokenizer, const InspectedText& text) {
  CROSSTALK_CHECK_FIELD(!text.second, "second", "is for a model of two segments; a T5 reads one text");
  const std::unique_ptr<TextWriter> writer = model.MakeWriter(tokenizer);
  SearchInput input = writer->Read(text.text, writer->Defaults(text.text).max_length);
  const int32_t end = tokenizer->special_tokens().end;
  std::vector<int32_t> target;
  if (text.target) {
    target = EncodeBlanks(SplitAtBlanks(*text.target), *tokenizer);
  } else {
    input.max_length = std::min(*input.max_length, text.max_tokens);
    const std::vector<SearchAnswer> answers = Search(model, {input}, {.max_length = *input.max_length})[0];
    if (!answers.empty()) target = answers[0].ids;
  }
  if (target.empty()) target = {end};
  Batch batch;
  batch.Add("input_ids", Row(input.ids));
  batch.Add("decoder_input_ids", ShiftRight(Row(target), static_cast<const T5&>(model).config().tokens.decoder_start));
  return batch;
}

}  // namespace crosstalk
