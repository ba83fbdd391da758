// A text as a language model's inputs.
#include <memory>

#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/lm/build.h"
#include "crosstalk/models/text_inputs.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {

Batch ReadTextForLm(const Model& model, const std::shared_ptr<const Tokenizer>& tokenizer, const InspectedText& text) {
  CROSSTALK_CHECK_FIELD(!text.second, "second", "is for a model of two segments; a language model reads one text");
  CROSSTALK_CHECK_FIELD(!text.target, "target", "is for a model with a decoder beside its encoder");
  const std::vector<int32_t> ids = model.MakeWriter(tokenizer)->Read(text.text, 1).ids;
  Batch batch;
  batch.Add("input_ids", Tensor::FromValues<int32_t>({1, static_cast<int64_t>(ids.size())}, ids));
  return batch;
}

}  // namespace crosstalk
