#include "crosstalk/models/text_inputs.h"

#include "crosstalk/runtime/check.h"

namespace crosstalk {

Batch ReadText(const Model& model, const std::shared_ptr<const Tokenizer>& tokenizer, const InspectedText& text) {
  CROSSTALK_CHECK(tokenizer != nullptr, "the model has no tokenizer, so that it reads no text");
  CROSSTALK_CHECK_FIELD(text.max_tokens >= 1 && text.max_tokens <= kMostInspectedTokens, "max_tokens", text.max_tokens,
                        " is not between 1 and ", kMostInspectedTokens, "; maps grow with its square");
  const Batch batch = model.TextInputs(tokenizer, text);
  for (const NamedTensor& input : batch.tensors()) {
    const char* const field = input.name == "decoder_input_ids" ? "target" : "text";
    CROSSTALK_CHECK_FIELD(input.tensor.size(1) <= text.max_tokens, field, "is ", input.tensor.size(1),
                          " tokens long, more than max_tokens = ", text.max_tokens,
                          ": shorten it, or raise max_tokens; maps grow with its square");
  }
  return batch;
}

}  // namespace crosstalk
