// A T5's results under Hugging Face's names.
#include <algorithm>
#include <string>
#include <vector>

#include "crosstalk/models/published_inputs.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

// What the decoder reads where only labels are given: those that count nothing are padding to it.
Tensor DecoderIds(const Tensor& labels, const SpecialTokens& tokens) {
  const Tensor ids = labels.Clone();
  std::replace(ids.data<int32_t>(), ids.data<int32_t>() + ids.num_elements(), kIgnoredLabel, tokens.pad);
  return ShiftRight(ids, tokens.decoder_start);
}

}  // namespace

std::vector<NamedVariable> T5::ComputeOutputs(const Batch& inputs, OutputDetail detail,
                                              const ForwardContext& context) const {
  CheckInputNames(inputs, {"input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask", "labels"});
  const Tensor ids = RequiredInputIds(inputs, 2, config_.vocabulary);
  const Tensor labels = InputLabels(inputs, "labels", 2, config_.vocabulary);
  Tensor decoder_ids = InputIds(inputs, "decoder_input_ids", 2, {0, config_.vocabulary - 1});
  CROSSTALK_CHECK(decoder_ids.defined() || labels.defined(),
                  "decoder_input_ids: is missing, and there are no labels to make it of");
  if (!decoder_ids.defined()) decoder_ids = DecoderIds(labels, config_.tokens);
  CROSSTALK_CHECK(decoder_ids.num_elements() > 0, "decoder_input_ids: ", decoder_ids.shape(), " holds nothing");
  CROSSTALK_CHECK(!labels.defined() || labels.shape() == decoder_ids.shape(), "labels: ", labels.shape(),
                  " must be as decoder_input_ids", decoder_ids.shape());
  const Tensor mask = InputMaskOrAll(inputs, "attention_mask", ids.shape());
  const Tensor decoder_mask = InputMaskOrAll(inputs, "decoder_attention_mask", decoder_ids.shape());

  const bool all = detail == OutputDetail::kAll;
  TransformerRecord encoder_record, decoder_record;
  const Variable encoded = Encode(ids, context, mask, all ? &encoder_record : nullptr);
  const Variable hidden = Decode(encoded, mask, decoder_ids, context, decoder_mask, all ? &decoder_record : nullptr);
  const Variable logits = Logits(hidden);
  std::vector<NamedVariable> outputs = {
      {"logits", logits}, {"encoder_last_hidden_state", encoded}, {"decoder_last_hidden_state", hidden}};
  if (labels.defined()) outputs.push_back({"loss", MeanCrossEntropy(logits, labels, "labels")});
  AddRecord(encoder_record, "encoder_", outputs);
  AddRecord(decoder_record, "decoder_", outputs);
  for (size_t i = 0; i < decoder_record.cross_attention.size(); ++i) {
    outputs.push_back({StrCat("cross_attentions.", i), decoder_record.cross_attention[i]});
  }
  return outputs;
}

}  // namespace crosstalk
