// A language model's results under Hugging Face's names.
#include <string>
#include <vector>

#include "crosstalk/autograd/ops_shape.h"
#include "crosstalk/models/lm/lm.h"
#include "crosstalk/models/published_inputs.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {

std::vector<NamedVariable> Lm::ComputeOutputs(const Batch& inputs, OutputDetail detail,
                                              const ForwardContext& context) const {
  CheckInputNames(inputs, {"input_ids", "attention_mask", "labels"});
  const Tensor ids = RequiredInputIds(inputs, 2, config_.vocabulary);
  const int64_t n = ids.size(1);
  CROSSTALK_CHECK(n <= config_.context, "input_ids: ", ids.shape(), " are ", n, " tokens, more than the model's ",
                  config_.context);
  const Tensor labels = InputLabels(inputs, "labels", 2, config_.vocabulary);
  CROSSTALK_CHECK(!labels.defined() || (labels.shape() == ids.shape() && n >= 2), "labels: ", labels.shape(),
                  " must be as input_ids", ids.shape(), ", of two tokens or more");

  TransformerRecord record;
  const bool all = detail == OutputDetail::kAll;
  Variable hidden;
  {
    const ContextScope scope = InLayer("decoder");
    hidden = decoder_->Forward(Embed(ids, 0), InputMask(inputs, "attention_mask", ids.shape()), {}, context,
                               all ? &record : nullptr);
  }
  const Variable logits = classifier_->Logits(hidden);
  std::vector<NamedVariable> outputs = {{"logits", logits}, {"last_hidden_state", hidden}};
  if (labels.defined()) {
    const Variable asked = Slice(logits, 1, 0, n - 1);
    outputs.push_back({"loss", MeanCrossEntropy(asked, labels.Slice(1, 1, n).Contiguous(), "labels")});
  }
  AddRecord(record, "", outputs);
  return outputs;
}

}  // namespace crosstalk
